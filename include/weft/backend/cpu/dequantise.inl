// Weights of few bits to numbers, of one target. Included once per target by dequantise.hpp.

#if WEFT_TARGET > 0
/// Numbers of four bytes' codes, and `lanes` codes of eight or sixteen.
WEFT_INLINE vec_u32 nibbles(const std::uint8_t* codes) {
  std::uint32_t four[2];
  __builtin_memcpy(four, codes, lanes / 2);
#if WEFT_TARGET == 2
  const vec_u32 shifts = {4, 0, 12, 8, 20, 16, 28, 24, 4, 0, 12, 8, 20, 16, 28, 24};
  const vec_u32 bytes = {four[0], four[0], four[0], four[0], four[0], four[0], four[0], four[0],
                         four[1], four[1], four[1], four[1], four[1], four[1], four[1], four[1]};
#else
  const vec_u32 shifts = {4, 0, 12, 8, 20, 16, 28, 24};
  const vec_u32 bytes = four[0] - vec_u32{};
#endif
  return bytes >> shifts & 15u;
}
#endif

/// y = scale times what n codes stand for; the first lies in the upper half of its byte.
template <class T>
inline void dequantise_nf4(std::int64_t n, const std::uint8_t* codes, float scale, T* y) {
  const float* const values = ::weft::detail::nf4_values.at;
  std::int64_t i = 0;
#if WEFT_TARGET > 0
  if constexpr (sizeof(T) < 8) {
    const vec low = load(values);
#if WEFT_TARGET == 1
    const vec high = load(values + 8);
#endif
    for (; i + lanes <= n; i += lanes) {
      const vec_u32 code = nibbles(codes + i / 2);
      vec v;
      __asm__("vpermps %2, %1, %0" : "=v"(v) : "v"(code), "v"(low));
#if WEFT_TARGET == 1
      vec upper;
      __asm__("vpermps %2, %1, %0" : "=v"(upper) : "v"(code), "v"(high));
      v = select(code >= 8u, upper, v);
#endif
      store(y + i, v * splat(scale));
    }
  }
#endif
  for (; i < n; ++i) {
    const int code = i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
    y[i] = static_cast<T>(values[code] * scale);
  }
}

/// y = scale / 127 times n signed codes.
template <class T>
inline void dequantise_int8(std::int64_t n, const std::uint8_t* codes, float scale, T* y) {
  constexpr float step = 1.0f / 127;
  std::int64_t i = 0;
#if WEFT_TARGET > 0
  if constexpr (sizeof(T) < 8)
    for (; i + lanes <= n; i += lanes) {
      typedef std::int8_t bytes_at __attribute__((vector_size(lanes), aligned(1), may_alias));
      vec v;
#if WEFT_TARGET == 2
      __asm__("vpmovsxbd %1, %0\n\tvcvtdq2ps %0, %0" : "=v"(v) : "m"(*reinterpret_cast<const bytes_at*>(codes + i)));
#else
      __asm__("vpmovsxbd %1, %0\n\tvcvtdq2ps %0, %0" : "=x"(v) : "m"(*reinterpret_cast<const bytes_at*>(codes + i)));
#endif
      store(y + i, v * splat(scale) * splat(step));
    }
#endif
  for (; i < n; ++i) y[i] = static_cast<T>(static_cast<float>(static_cast<std::int8_t>(codes[i])) * scale * step);
}
