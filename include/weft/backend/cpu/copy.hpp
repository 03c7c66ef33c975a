// Strided copies: transposes, slices, padding.
// Invariant: element i... of y becomes (or gains) element i... of x; x and y do not overlap. A NaN stays one, if a
// quiet one.
#pragma once

#include <cstring>
#include <weft/backend/cpu/elementwise.hpp>
#include <weft/backend/cpu/index.hpp>

#define WEFT_KERNELS <weft/backend/cpu/copy.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu {

namespace detail {

/// One row of a copy.
template <class T>
void copy_row(int64 n, const T* x, int64 sx, T* y, int64 sy, bool add) {
  if (sx == 1 && sy == 1) {
    if constexpr (floating<T>) {
      if (add) return convert_block(n, x, y, true);
    }
    if (!add) {
      std::memcpy(static_cast<void*>(y), x, static_cast<std::size_t>(n) * sizeof(T));
      return;
    }
  }
  if (add)
    for (int64 i = 0; i < n; ++i) put(y[i * sy], widen(x[i * sx]), true);
  else
    for (int64 i = 0; i < n; ++i) y[i * sy] = x[i * sx];
}

template <class T>
void copy_transposed(int64 rows, int64 columns, const T* x, int64 x_column, T* y, int64 y_row) {
  if constexpr (in_float<T>) {
    WEFT_DISPATCH(copy_transposed, rows, columns, x, x_column, y, y_row);
  } else {
    constexpr int64 side = 8;  // squares whose lines stay in the first cache
    for (int64 j0 = 0; j0 < columns; j0 += side)
      for (int64 i = 0; i < rows; ++i)
        for (int64 j = j0; j < columns && j < j0 + side; ++j) y[i * y_row + j] = x[i + j * x_column];
  }
}

/// y += the transposed, by way of a small square in the first cache: x is moved there, then added row by row.
template <class T>
void add_transposed(int64 rows, int64 columns, const T* x, int64 x_column, T* y, int64 y_row) {
  constexpr int64 side = 32;
  alignas(64) T square[side * side];
  for (int64 j = 0; j < columns; j += side)
    for (int64 i = 0; i < rows; i += side) {
      const int64 down = rows - i < side ? rows - i : side, across = columns - j < side ? columns - j : side;
      copy_transposed(down, across, x + i + j * x_column, x_column, square, side);
      for (int64 k = 0; k < down; ++k) copy_row(across, square + k * side, 1, y + (i + k) * y_row + j, 1, true);
    }
}

/// The dimension along which an array runs, or -1.
inline int unit_dimension(const loop<2>& nest, int array) {
  for (int d = nest.rank() - 1; d >= 0; --d)
    if (nest.stride(array, d) == 1) return d;
  return -1;
}

/// What a copy of one element type is made of, so that the loop nest around it is compiled once.
struct copy_kernels {
  int64 size;  // bytes of an element
  void (*row)(int64 n, const void* x, int64 sx, void* y, int64 sy, bool add);
  void (*square)(int64 rows, int64 columns, const void* x, int64 x_column, void* y, int64 y_row, bool add);  // transposed
};

template <class T>
constexpr copy_kernels copy_kernels_of() {
  return {sizeof(T),
          [](int64 n, const void* x, int64 sx, void* y, int64 sy, bool add) {
            copy_row(n, static_cast<const T*>(x), sx, static_cast<T*>(y), sy, add);
          },
          [](int64 rows, int64 columns, const void* x, int64 x_column, void* y, int64 y_row, bool add) {
            if constexpr (!floating<T>) {
              if (add)
                for (int64 j = 0; j < columns; ++j)
                  copy_row(rows, static_cast<const T*>(x) + j * x_column, 1, static_cast<T*>(y) + j, y_row, true);
              else copy_transposed(rows, columns, static_cast<const T*>(x), x_column, static_cast<T*>(y), y_row);
            } else if (add) add_transposed(rows, columns, static_cast<const T*>(x), x_column, static_cast<T*>(y), y_row);
            else copy_transposed(rows, columns, static_cast<const T*>(x), x_column, static_cast<T*>(y), y_row);
          }};
}

[[gnu::noinline]] inline void copy(team& workers, loop<2> nest, const copy_kernels& kernels, const void* from, void* to, bool add) {
  const auto x = [&](int64 at) { return static_cast<const char*>(from) + at * kernels.size; };
  const auto y = [&](int64 at) { return static_cast<char*>(to) + at * kernels.size; };
  const int to_last = unit_dimension(nest, 1), along = unit_dimension(nest, 0), last = nest.rank() - 1;
  if (to_last < 0 || along < 0 || to_last == along) {
    const int64 n = nest.inner(), sx = nest.inner_stride(0), sy = nest.inner_stride(1);
    for_rows(workers, nest.outer(), n, [&](int64 begin, int64 end) {
      nest.each(begin, end, [&](const std::array<int64, 2>& at) { kernels.row(n, x(at[0]), sx, y(at[1]), sy, add); });
    });
    return;
  }
  if (to_last != last) return copy(workers, nest.with_last(to_last), kernels, from, to, add);
  // Transposed: tasks are bands of 64 of dimension `along`, for every index of the dimensions that remain.
  constexpr int64 band = 64;
  const int64 rows = nest.extent(along), columns = nest.inner(), bands = (rows + band - 1) / band;
  const int64 x_column = nest.stride(0, last), y_row = nest.stride(1, along);
  const loop<2> rest = nest.without(along);
  workers.parallel_for(rest.outer() * bands, [&](int64 task) {
    const auto at = rest.offsets(task / bands);
    const int64 first = task % bands * band, n = rows - first < band ? rows - first : band;
    kernels.square(n, columns, x(at[0] + first), x_column, y(at[1] + first * y_row), y_row, add);
  });
}

}  // namespace detail

/// y[i...] (+)= x[i...] over `rank` <= 8 extents; strides in elements.
template <class T>
void copy(team& workers, int rank, const int64* extents, const T* x, const int64* x_strides, T* y,
          const int64* y_strides, bool add) {
  const detail::loop<2> nest(rank, extents, {x_strides, y_strides});
  detail::copy(workers, nest, detail::copy_kernels_of<T>(), x, y, add);
}

}  // namespace weft::cpu
