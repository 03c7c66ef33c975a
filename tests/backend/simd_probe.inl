// Kernels that only the tests of simd.inl use.

template <class T>
inline int probe_copy_kernel(const T* from, T* to, std::int64_t n) {
  constexpr int width = static_cast<int>(sizeof(load(from)) / sizeof(accumulate_t<T>));
  std::int64_t i = 0;
  for (; i + width <= n; i += width) store(to + i, load(from + i));
  store(to + i, load(from + i, n - i), n - i);
  return lanes;
}

inline void probe_math_kernel(const float* from, float* to) {
  vec total{}, largest = load(from);
  for (int i = 0; i < 16; i += lanes) {
    const vec v = load(from + i);
    store(to + i, widen_bf16(narrow_bf16(v)));
    store(to + 16 + i, widen_fp16(narrow_fp16(v)));
    store(to + 32 + i, sqrt(abs(v)));
    store(to + 48 + i, max(v, splat(2.0f)));
    store(to + 64 + i, fma(v, splat(3.0f), splat(1.0f)));
    total += v;
    largest = max(largest, v);
  }
  to[80] = sum(total);
  to[81] = maximum(largest);
}

inline int probe_transpose_kernel(const float* from, float* to) {
  vec v[lanes];
  for (int i = 0; i < lanes; ++i) v[i] = load(from + i * lanes);
  transpose(v);
  for (int i = 0; i < lanes; ++i) store(to + i * lanes, v[i]);
  return lanes;
}
