// Transposing copies of one target. Included once per target by copy.hpp.

/// y[i, j] = x[i, j] where x runs along i and y along j. Squares of vectors in registers, the edges one by one.
template <class T>
inline void copy_transposed(std::int64_t rows, std::int64_t columns, const T* x, std::int64_t x_column, T* y,
                            std::int64_t y_row) {
  const std::int64_t whole_rows = rows / lanes * lanes, whole_columns = columns / lanes * lanes;
  for (std::int64_t j = 0; j < whole_columns; j += lanes)
    for (std::int64_t i = 0; i < whole_rows; i += lanes) {
      vec square[lanes];
      WEFT_UNROLL for (int k = 0; k < lanes; ++k) square[k] = load(x + i + (j + k) * x_column);
      transpose(square);
      WEFT_UNROLL for (int k = 0; k < lanes; ++k) store(y + (i + k) * y_row + j, square[k]);
    }
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j) y[i * y_row + j] = x[i + j * x_column];
}
