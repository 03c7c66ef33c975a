// AdamW of one target. Included once per target by adamw.hpp.

template <class M, class G, class W>
inline void adamw_block(const adamw_step& step, std::int64_t n, M* master, M* m, M* v, const G* g, W* working) {
  const M b1 = static_cast<M>(step.beta1), b2 = static_cast<M>(step.beta2);
  const M c1 = static_cast<M>(1 - step.beta1), c2 = static_cast<M>(1 - step.beta2);
  const M scale = static_cast<M>(step.grad_scale.value()), eps = static_cast<M>(step.eps);
  const M lr = static_cast<M>(step.lr / step.bias1), i2 = static_cast<M>(1 / std::sqrt(step.bias2));
  const M decay = static_cast<M>(step.lr * step.weight_decay);
  sweep<M>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    const auto gradient = get(g + i, count) * scale, old = get(master + i, count);
    const auto mean = fma(get(m + i, count), splat(b1), gradient * c1);
    const auto square = fma(get(v + i, count), splat(b2), gradient * c2 * gradient);  // no sooner too large than it
    const auto w = old - (mean * lr / (sqrt(square) * i2 + eps) + decay * old);
    set(m + i, mean, count);
    set(v + i, square, count);
    set(master + i, w, count);
    if (working) set(working + i, w, count);
  });
}
