// The gated unit of one target. Included once per target by swiglu.hpp.

template <class T>
inline void swiglu_block(std::int64_t n, const T* gate, const T* up, T* y) {
  sweep<T>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    const auto g = get(gate + i, count);
    set(y + i, g * sigmoid(g) * get(up + i, count), count);
  });
}

template <class T>
inline void swiglu_backward_block(std::int64_t n, const T* gate, const T* up, const T* dy, T* dgate, bool add_gate,
                                  T* dup, bool add_up) {
  typedef accumulate_t<T> A;
  sweep<T>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
    const auto g = get(gate + i, count), u = get(up + i, count), d = get(dy + i, count);
    const auto s = sigmoid(g), silu = g * s;
    put(dgate + i, d * u * fma(silu, A(1) - s, s), add_gate, count);
    put(dup + i, d * silu, add_up, count);
  });
}
