// Vectors of float for one target: 4 lanes (portable), 8 (AVX2) or 16 (AVX-512). Included once per target by simd.hpp.
// Invariant: the same arithmetic on every target, except that fma is one rounding where the hardware has it.

inline constexpr int lanes = WEFT_TARGET == 2 ? 16 : WEFT_TARGET == 1 ? 8 : 4;

typedef float vec __attribute__((vector_size(4 * lanes)));             // `lanes` floats
typedef std::int32_t vec_i32 __attribute__((vector_size(4 * lanes)));  // result of a comparison: 0 or -1
typedef std::uint32_t vec_u32 __attribute__((vector_size(4 * lanes)));
typedef std::uint16_t vec_u16 __attribute__((vector_size(2 * lanes)));  // bits of bf16 or fp16
typedef double vec_f64 __attribute__((vector_size(4 * lanes)));         // lanes / 2 doubles

typedef float vec_at __attribute__((vector_size(4 * lanes), aligned(4), may_alias));
typedef std::uint16_t vec_u16_at __attribute__((vector_size(2 * lanes), aligned(2), may_alias));
typedef double vec_f64_at __attribute__((vector_size(4 * lanes), aligned(8), may_alias));

WEFT_INLINE vec splat(float value) { return value - vec{}; }
WEFT_INLINE vec_f64 splat(double value) { return value - vec_f64{}; }
WEFT_INLINE vec fma(vec a, vec b, vec c) { return a * b + c; }
WEFT_INLINE vec_f64 fma(vec_f64 a, vec_f64 b, vec_f64 c) { return a * b + c; }
/// v: a product, which the compiler must not make part of a fused multiply and add.
template <class V>
WEFT_INLINE V rounded(V v) {
#if WEFT_TARGET == 2
  __asm__("" : "+v"(v));
#elif defined(__x86_64__)
  __asm__("" : "+x"(v));
#else
  __asm__("" : "+w"(v));
#endif
  return v;
}
WEFT_INLINE vec max(vec a, vec b) { return a > b ? a : b; }  // b if either is NaN
WEFT_INLINE vec min(vec a, vec b) { return a < b ? a : b; }
WEFT_INLINE vec select(vec_i32 mask, vec yes, vec no) { return mask ? yes : no; }
WEFT_INLINE vec_u32 bits_of(vec v) { return reinterpret_cast<vec_u32>(v); }
WEFT_INLINE vec from_bits(vec_u32 v) { return reinterpret_cast<vec>(v); }
WEFT_INLINE vec abs(vec v) { return from_bits(bits_of(v) & 0x7fffffffu); }

/// Square root of each lane.
WEFT_INLINE vec sqrt(vec v) {
#if WEFT_TARGET == 0
  for (int i = 0; i < lanes; ++i) v[i] = __builtin_sqrtf(v[i]);
#else
  __asm__("vsqrtps %1, %0" : "=v"(v) : "v"(v));
#endif
  return v;
}

/// Sum and maximum over the lanes, by halves.
WEFT_INLINE float sum(vec v) {
  float part[lanes];
  __builtin_memcpy(part, &v, sizeof v);
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) part[i] += part[i + half];
  return part[0];
}
WEFT_INLINE double sum(vec_f64 v) {
  double part[lanes / 2];
  __builtin_memcpy(part, &v, sizeof v);
  for (int half = lanes / 4; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) part[i] += part[i + half];
  return part[0];
}
WEFT_INLINE float maximum(vec v) {
  float part[lanes];
  __builtin_memcpy(part, &v, sizeof v);
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) part[i] = part[i] > part[i + half] ? part[i] : part[i + half];
  return part[0];
}

// 16-bit lanes to 32-bit lanes and back.
WEFT_INLINE vec_u32 widen_u16(vec_u16 h) {
#if WEFT_TARGET == 0
  return __builtin_convertvector(h, vec_u32);
#else
  vec_u32 u;
  __asm__("vpmovzxwd %1, %0" : "=v"(u) : "v"(h));
  return u;
#endif
}
WEFT_INLINE vec_u16 narrow_u32(vec_u32 u) {
#if WEFT_TARGET == 2
  vec_u16 h;
  __asm__("vpmovdw %1, %0" : "=v"(h) : "v"(u));
  return h;
#else
  return __builtin_convertvector(u, vec_u16);
#endif
}

WEFT_INLINE vec widen_bf16(vec_u16 h) { return from_bits(widen_u16(h) << 16); }
WEFT_INLINE vec_u16 narrow_bf16(vec v) {  // nearest, ties to even; NaN stays NaN
#if WEFT_TARGET == 0
  return narrow_u32(::weft::detail::narrowed_bf16(bits_of(v)) >> 16);
#else
  const vec_u32 u = bits_of(v);
  const vec_u32 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return narrow_u32(v == v ? rounded : (u >> 16) | 0x40u);
#endif
}
WEFT_INLINE vec widen_fp16(vec_u16 h) {
#if WEFT_TARGET == 0
  return from_bits(::weft::detail::widened_fp16(widen_u16(h) << 16));
#else
  vec v;
  __asm__("vcvtph2ps %1, %0" : "=v"(v) : "v"(h));
  return v;
#endif
}
WEFT_INLINE vec_u16 narrow_fp16(vec v) {
#if WEFT_TARGET == 0
  return narrow_u32(::weft::detail::narrowed_fp16(bits_of(v)) >> 16);
#else
  vec_u16 h;
  __asm__("vcvtps2ph $0, %1, %0" : "=v"(h) : "v"(v));
  return h;
#endif
}

// Loads and stores at any address; what is in memory may be float, bf16 or fp16, the vector is always float.
WEFT_INLINE vec load(const float* p) { return *reinterpret_cast<const vec_at*>(p); }
WEFT_INLINE vec load(const bf16* p) { return widen_bf16(*reinterpret_cast<const vec_u16_at*>(p)); }
WEFT_INLINE vec load(const fp16* p) { return widen_fp16(*reinterpret_cast<const vec_u16_at*>(p)); }
WEFT_INLINE vec_f64 load(const double* p) { return *reinterpret_cast<const vec_f64_at*>(p); }
WEFT_INLINE void store(float* p, vec v) { *reinterpret_cast<vec_at*>(p) = v; }
WEFT_INLINE void store(bf16* p, vec v) { *reinterpret_cast<vec_u16_at*>(p) = narrow_bf16(v); }
WEFT_INLINE void store(fp16* p, vec v) { *reinterpret_cast<vec_u16_at*>(p) = narrow_fp16(v); }
WEFT_INLINE void store(double* p, vec_f64 v) { *reinterpret_cast<vec_f64_at*>(p) = v; }

/// The first n lanes only (0 <= n <= lanes); a load fills the rest with zeros. Memory beyond n is not touched.
template <class T>
WEFT_INLINE vec load(const T* p, std::int64_t n) {
  T part[lanes];
  __builtin_memset(static_cast<void*>(part), 0, sizeof part);
  __builtin_memcpy(static_cast<void*>(part), p, static_cast<std::size_t>(n) * sizeof(T));
  return load(part);
}
template <class T>
WEFT_INLINE void store(T* p, vec v, std::int64_t n) {
  T part[lanes];
  store(part, v);
  __builtin_memcpy(static_cast<void*>(p), part, static_cast<std::size_t>(n) * sizeof(T));
}
WEFT_INLINE vec_f64 load(const double* p, std::int64_t n) {
  double part[lanes / 2] = {};
  __builtin_memcpy(part, p, static_cast<std::size_t>(n) * sizeof(double));
  return load(part);
}
WEFT_INLINE void store(double* p, vec_f64 v, std::int64_t n) {
  __builtin_memcpy(p, &v, static_cast<std::size_t>(n) * sizeof(double));
}
#if WEFT_TARGET == 2
WEFT_INLINE std::uint16_t first_lanes(std::int64_t n) { return static_cast<std::uint16_t>((1u << n) - 1); }
WEFT_INLINE vec load(const float* p, std::int64_t n) {
  vec v;
  __asm__("vmovups %1, %0 %{%2%} %{z%}" : "=v"(v) : "m"(*reinterpret_cast<const vec_at*>(p)), "Yk"(first_lanes(n)));
  return v;
}
WEFT_INLINE void store(float* p, vec v, std::int64_t n) {
  __asm__("vmovups %1, %0 %{%2%}" : "+m"(*reinterpret_cast<vec_at*>(p)) : "v"(v), "Yk"(first_lanes(n)));
}
WEFT_INLINE vec_u16 load_u16(const void* p, std::int64_t n) {
  vec_u16 h;
  __asm__("vmovdqu16 %1, %0 %{%2%} %{z%}" : "=v"(h) : "m"(*static_cast<const vec_u16_at*>(p)), "Yk"(first_lanes(n)));
  return h;
}
WEFT_INLINE void store_u16(void* p, vec_u16 h, std::int64_t n) {
  __asm__("vmovdqu16 %1, %0 %{%2%}" : "+m"(*static_cast<vec_u16_at*>(p)) : "v"(h), "Yk"(first_lanes(n)));
}
WEFT_INLINE vec load(const bf16* p, std::int64_t n) { return widen_bf16(load_u16(p, n)); }
WEFT_INLINE vec load(const fp16* p, std::int64_t n) { return widen_fp16(load_u16(p, n)); }
WEFT_INLINE void store(bf16* p, vec v, std::int64_t n) { store_u16(p, narrow_bf16(v), n); }
WEFT_INLINE void store(fp16* p, vec v, std::int64_t n) { store_u16(p, narrow_fp16(v), n); }
#elif WEFT_TARGET == 1
WEFT_INLINE vec_i32 first_lanes(std::int64_t n) {
  return vec_i32{0, 1, 2, 3, 4, 5, 6, 7} < static_cast<std::int32_t>(n);
}
WEFT_INLINE vec load(const float* p, std::int64_t n) {
  vec v;
  __asm__("vmaskmovps %1, %2, %0" : "=x"(v) : "m"(*reinterpret_cast<const vec_at*>(p)), "x"(first_lanes(n)));
  return v;
}
WEFT_INLINE void store(float* p, vec v, std::int64_t n) {
  __asm__("vmaskmovps %1, %2, %0" : "+m"(*reinterpret_cast<vec_at*>(p)) : "x"(v), "x"(first_lanes(n)));
}
#endif

template <int Step, std::size_t... Lane>
WEFT_INLINE void swap_blocks(vec& a, vec& b, std::index_sequence<Lane...>) {
#if defined(__CUDACC__)  // nvcc's front end can't expand a pack in __builtin_shufflevector
  const vec x = a, y = b;
  ((a[Lane] = Lane & Step ? y[(Lane - Step) % lanes] : x[Lane],
    b[Lane] = Lane & Step ? y[Lane] : x[(Lane + Step) % lanes]),
   ...);
#else
  const vec low = __builtin_shufflevector(a, b, (Lane & Step ? static_cast<int>(Lane) - Step + lanes : int(Lane))...);
  b = __builtin_shufflevector(a, b, (Lane & Step ? int(Lane) + lanes : static_cast<int>(Lane) + Step)...);
  a = low;
#endif
}
template <int Step, std::size_t... Row>
WEFT_INLINE void transpose_step(vec* v, std::index_sequence<Row...> rows) {
  ((Row & Step ? void() : swap_blocks<Step>(v[Row], v[(Row | Step) % lanes], rows)), ...);
}
/// Transposes the lanes x lanes matrix whose rows are v[0] ... v[lanes-1]. Moves bits only.
WEFT_INLINE void transpose(vec* v) {
  constexpr auto rows = std::make_index_sequence<lanes>();
  transpose_step<1>(v, rows);
  transpose_step<2>(v, rows);
#if WEFT_TARGET >= 1
  transpose_step<4>(v, rows);
#endif
#if WEFT_TARGET == 2
  transpose_step<8>(v, rows);
#endif
}
