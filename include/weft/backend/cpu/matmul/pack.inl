// Packing of operands into panels: reads any strides, contiguous ones by vectors, and transposes in registers.
// Invariant: a panel is zero where its operand has no row, column or k. Writes up to one vector beyond the last panel.

/// One float a unit, from memory of type T.
template <class T>
struct single_units {
  using source = T;
  static constexpr int values = 1;
  // `lanes` units of one row, of which n values exist
  static WEFT_INLINE vec along(const T* p, std::int64_t n) { return n >= lanes ? load(p) : load(p, n); }
  // one unit of `lanes` neighbouring rows, of which n exist
  static WEFT_INLINE vec across(const T* p, std::int64_t, std::int64_t, std::int64_t n) {
    return n >= lanes ? load(p) : load(p, n);
  }
  static WEFT_INLINE float one(const T* p, std::int64_t, std::int64_t) { return static_cast<float>(*p); }
};

/// Two bf16 a unit; bits are moved, not converted.
struct pair_units {
  using source = bf16;
  static constexpr int values = 2;
  static WEFT_INLINE vec along(const bf16* p, std::int64_t n) {
    vec v{};
    __builtin_memcpy(&v, p, n >= 2 * lanes ? sizeof v : static_cast<std::size_t>(n) * 2);
    return v;
  }
  static WEFT_INLINE vec_u32 row(const bf16* p, std::int64_t n) {
    vec_u16 h{};
    if (n >= lanes) return widen_u16(*reinterpret_cast<const vec_u16_at*>(p));
    __builtin_memcpy(&h, p, static_cast<std::size_t>(n) * 2);
    return widen_u16(h);
  }
  static WEFT_INLINE vec across(const bf16* p, std::int64_t next, std::int64_t k_left, std::int64_t n) {
    vec_u32 v = row(p, n);
    if (k_left > 1) v |= row(p + next, n) << 16;
    return from_bits(v);
  }
  static WEFT_INLINE float one(const bf16* p, std::int64_t next, std::int64_t k_left) {
    std::uint32_t u = p->bits;
    if (k_left > 1) u |= std::uint32_t{p[next].bits} << 16;
    return __builtin_bit_cast(float, u);
  }
};

/// `Rows` rows times `lanes` units, transposed in registers and stored unit after unit, `width` floats apart.
template <class Units, std::size_t... Row, std::size_t... Lane>
WEFT_INLINE void pack_square(const typename Units::source* from, std::int64_t across, int width, float* to,
                             std::index_sequence<Row...>, std::index_sequence<Lane...>) {
  vec v[lanes] = {};
  ((v[Row] = Units::along(from + static_cast<std::int64_t>(Row) * across, lanes * Units::values)), ...);
  transpose(v);
  (store(to + static_cast<std::int64_t>(Lane) * width, v[Lane]), ...);
}

/// The same at the edges: `rows` rows, `units` units holding k values.
template <class Units>
inline void pack_edge(const typename Units::source* from, std::int64_t across, std::int64_t rows, std::int64_t units,
                      std::int64_t k, int width, float* to) {
  vec v[lanes] = {};
  for (std::int64_t i = 0; i < rows; ++i) v[i] = Units::along(from + i * across, k);
  transpose(v);
  for (std::int64_t u = 0; u < units; ++u) store(to + u * width, v[u]);
}

template <class Units, int Width>
inline void pack_panel(const typename Units::source* from, std::int64_t across, std::int64_t along,
                       std::int64_t count, std::int64_t k, std::int64_t units, float* to) {
  constexpr int values = Units::values;
  if (across == 1) {
    for (std::int64_t u = 0; u < units; ++u)
      for (int i = 0; i < Width; i += lanes)
        store(to + u * Width + i, Units::across(from + u * values * along + (i < count ? i : 0), along,
                                                k - u * values, i < count ? count - i : 0));
  } else if (along == 1) {
    // Units go up in the outer loop: what a store writes beyond its unit, a later store overwrites.
    for (std::int64_t u = 0; u < units; u += lanes)
      for (int i = 0; i < Width; i += lanes) {
        constexpr int full = Width < lanes ? Width : lanes;
        const auto* at = from + (i < count ? i : 0) * across + u * values;
        const std::int64_t rows = i >= count ? 0 : count - i < full ? count - i : full;
        if (rows == full && k - u * values >= lanes * values)
          pack_square<Units>(at, across, Width, to + u * Width + i, std::make_index_sequence<full>(),
                             std::make_index_sequence<lanes>());
        else
          pack_edge<Units>(at, across, rows, units - u < lanes ? units - u : lanes, k - u * values, Width,
                           to + u * Width + i);
      }
  } else {
    for (std::int64_t u = 0; u < units; ++u)
      for (int i = 0; i < Width; ++i)
        to[u * Width + i] =
            i < count ? Units::one(from + i * across + u * values * along, along, k - u * values) : 0.0f;
  }
}

/// Packs `count` rows into panels of `Width` rows, each `Multiple`-padded units long.
template <class Units, int Width, int Multiple>
inline void pack(const typename Units::source* from, std::int64_t across, std::int64_t along, std::int64_t count,
                 std::int64_t k, void* memory) {
  static_assert(Width < lanes || Width % lanes == 0, "panels are narrower than a vector or a multiple of it");
  const std::int64_t units = (k + Units::values - 1) / Units::values;
  const std::int64_t padded = (units + Multiple - 1) / Multiple * Multiple;
  float* to = static_cast<float*>(memory);
  for (std::int64_t first = 0; first < count; first += Width, to += padded * Width) {
    pack_panel<Units, Width>(from + first * across, across, along, count - first, k, units, to);
    for (std::int64_t i = units * Width; i < padded * Width; ++i) to[i] = 0.0f;
  }
}

/// Double is for reference and checks of gradients: packed value by value.
template <int Width>
inline void pack_double(const double* from, std::int64_t across, std::int64_t along, std::int64_t count,
                        std::int64_t k, void* memory) {
  double* to = static_cast<double*>(memory);
  for (std::int64_t first = 0; first < count; first += Width)
    for (std::int64_t u = 0; u < k; ++u)
      for (int i = 0; i < Width; ++i)
        *to++ = first + i < count ? from[(first + i) * across + u * along] : 0.0;
}
