// Transposing copies of one target. Included once per target by copy.hpp.

// Elements of 16 and 32 bits in the lanes of a vector, and back.
WEFT_INLINE vec load_bits(const std::uint32_t* p) { return *reinterpret_cast<const vec_at*>(p); }
WEFT_INLINE vec load_bits(const std::uint16_t* p) {
  return from_bits(widen_u16(*reinterpret_cast<const vec_u16_at*>(p)));
}
WEFT_INLINE void store_bits(std::uint32_t* p, vec v) { *reinterpret_cast<vec_at*>(p) = v; }
WEFT_INLINE void store_bits(std::uint16_t* p, vec v) { *reinterpret_cast<vec_u16_at*>(p) = narrow_u32(bits_of(v)); }

/// y[i, j] = x[i, j] where x runs along i and y along j. Squares of vectors in registers, the edges one by one.
template <class Word>
inline void move_transposed(std::int64_t rows, std::int64_t columns, const Word* x, std::int64_t x_column, Word* y,
                            std::int64_t y_row) {
  const std::int64_t whole_rows = rows / lanes * lanes, whole_columns = columns / lanes * lanes;
  for (std::int64_t j = 0; j < whole_columns; j += lanes)
    for (std::int64_t i = 0; i < whole_rows; i += lanes) {
      vec square[lanes];
      WEFT_UNROLL for (int k = 0; k < lanes; ++k) square[k] = load_bits(&x[i + (j + k) * x_column].bits);
      transpose(square);
      WEFT_UNROLL for (int k = 0; k < lanes; ++k) store_bits(&y[(i + k) * y_row + j].bits, square[k]);
    }
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j) y[i * y_row + j] = x[i + j * x_column];
}
