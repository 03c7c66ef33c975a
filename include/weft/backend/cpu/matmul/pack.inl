// Packing of operands into panels: reads any strides, contiguous ones by vectors, and transposes in registers.
// Invariant: a panel is zero where its operand has no row, column or k. Nothing is written beyond the panels.

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

/// Stores what a panel `Width` floats wide takes of a vector.
template <int Width>
WEFT_INLINE void put(float* to, vec v) {
  if constexpr (Width < lanes)
    store(to, v, Width);
  else
    store(to, v);
}

/// As many rows as there are indices times `lanes` units, transposed in registers and stored unit after unit.
template <class Units, int Width, std::size_t... Row, std::size_t... Lane>
WEFT_INLINE void pack_square(const typename Units::source* from, std::int64_t across, float* to,
                             std::index_sequence<Row...>, std::index_sequence<Lane...>) {
  vec v[lanes] = {};
  ((v[Row] = Units::along(from + static_cast<std::int64_t>(Row) * across, lanes * Units::values)), ...);
  transpose(v);
  (put<Width>(to + static_cast<std::int64_t>(Lane) * Width, v[Lane]), ...);
}

/// The same at the edges: `rows` rows, `units` units holding k values. Compiled once for all widths.
template <class Units>
[[gnu::noinline]] inline void pack_edge(const typename Units::source* from, std::int64_t across, std::int64_t rows,
                                        std::int64_t units, std::int64_t k, float* to, std::int64_t width) {
  vec v[lanes] = {};
  for (std::int64_t i = 0; i < rows; ++i) v[i] = Units::along(from + i * across, k);
  transpose(v);
  for (std::int64_t u = 0; u < units; ++u) store(to + u * width, v[u], width < lanes ? width : lanes);
}

/// Rows that are neighbours in memory: some panels side by side, so that every step reads a long piece.
template <class Units, int Width>
inline void pack_across(const typename Units::source* from, std::int64_t along, std::int64_t count, std::int64_t k,
                        std::int64_t units, std::int64_t panel, float* to) {
  for (std::int64_t u = 0; u < units; ++u) {
    const auto* at = from + u * Units::values * along;
    float* out = to + u * Width;
    const std::int64_t k_left = k - u * Units::values;
    for (std::int64_t first = 0; first < count; first += Width, out += panel)
      for (int i = 0; i < Width; i += lanes) {
        const std::int64_t left = count - first - i;
        put<Width>(out + i, left > 0 ? Units::across(at + first + i, along, k_left, left) : vec{});
      }
  }
}

/// Rows that are contiguous along k.
template <class Units, int Width>
inline void pack_along(const typename Units::source* from, std::int64_t across, std::int64_t count, std::int64_t k,
                       std::int64_t units, float* to) {
  constexpr int full = Width < lanes ? Width : lanes;
  for (std::int64_t u = 0; u < units; u += lanes)
    for (int i = 0; i < Width; i += lanes) {
      const auto* at = from + (i < count ? i : 0) * across + u * Units::values;
      const std::int64_t rows = i >= count ? 0 : count - i < full ? count - i : full;
      const std::int64_t k_left = k - u * Units::values;
      if (rows == full && k_left >= lanes * Units::values)
        pack_square<Units, Width>(at, across, to + u * Width + i,
                                  std::make_index_sequence<static_cast<std::size_t>(full)>(),
                                  std::make_index_sequence<lanes>());
      else
        pack_edge<Units>(at, across, rows, units - u < lanes ? units - u : lanes, k_left, to + u * Width + i, Width);
    }
}

/// Packs `count` rows into panels of `Width` rows, whose length in units is padded to a multiple of `Multiple`.
template <class Units, int Width, int Multiple>
inline void pack(const typename Units::source* from, std::int64_t across, std::int64_t along, std::int64_t count,
                 std::int64_t k, void* memory) {
  static_assert(Width < lanes || Width % lanes == 0, "panels are narrower than a vector or a multiple of it");
  constexpr int values = Units::values;
  const std::int64_t units = (k + values - 1) / values;
  const std::int64_t panel = (units + Multiple - 1) / Multiple * Multiple * Width;
  float* to = static_cast<float*>(memory);
  constexpr std::int64_t side_by_side = Width < 16 ? 8 * Width : 4 * Width;
  if (across == 1)
    for (std::int64_t first = 0; first < count; first += side_by_side)
      pack_across<Units, Width>(from + first, along, count - first < side_by_side ? count - first : side_by_side, k,
                                units, panel, to + first / Width * panel);
  for (std::int64_t first = 0; first < count; first += Width, to += panel) {
    const auto* row = from + first * across;
    if (across == 1) {
    } else if (along == 1) {
      pack_along<Units, Width>(row, across, count - first, k, units, to);
    } else {
      for (std::int64_t u = 0; u < units; ++u)
        for (int i = 0; i < Width; ++i)
          to[u * Width + i] =
              first + i < count ? Units::one(row + i * across + u * values * along, along, k - u * values) : 0.0f;
    }
    for (std::int64_t i = units * Width; i < panel; ++i) to[i] = 0.0f;
  }
}

/// Double is for reference and checks of gradients: packed value by value.
template <int Width>
inline void pack_double(const double* from, std::int64_t across, std::int64_t along, std::int64_t count, std::int64_t k,
                        void* memory) {
  double* to = static_cast<double*>(memory);
  for (std::int64_t first = 0; first < count; first += Width)
    for (std::int64_t u = 0; u < k; ++u)
      for (int i = 0; i < Width; ++i) *to++ = first + i < count ? from[(first + i) * across + u * along] : 0.0;
}
