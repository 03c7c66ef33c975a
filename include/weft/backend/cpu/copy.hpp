// Strided copies: transposes, slices, padding.
// Invariant: element i... of y becomes element i... of x, bit for bit; x and y do not overlap.
#pragma once

#include <cstdint>
#include <cstring>

#include <weft/backend/cpu/index.hpp>
#include <weft/backend/cpu/vmath.hpp>

#define WEFT_KERNELS <weft/backend/cpu/copy.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu {

namespace detail {

/// An element moved as bits, so that types of one size share their copies.
template <class Bits>
struct [[gnu::may_alias]] word {
  Bits bits;
};

/// One row of a copy.
template <class Bits>
void move_row(int64 n, const void* from, int64 sx, void* to, int64 sy) {
  if (sx == 1 && sy == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(Bits));
    return;
  }
  const auto* const x = static_cast<const word<Bits>*>(from);
  auto* const y = static_cast<word<Bits>*>(to);
  for (int64 i = 0; i < n; ++i) y[i * sy] = x[i * sx];
}

/// y[i, j] = x[i, j] where x runs along i and y along j.
template <class Bits>
void move_transposed(int64 rows, int64 columns, const void* from, int64 x_column, void* to, int64 y_row) {
  const auto* const x = static_cast<const word<Bits>*>(from);
  auto* const y = static_cast<word<Bits>*>(to);
  if constexpr (sizeof(Bits) == 2 || sizeof(Bits) == 4) {
    WEFT_DISPATCH(move_transposed, rows, columns, x, x_column, y, y_row);
  } else {
    constexpr int64 side = 8;  // squares whose lines stay in the first cache
    for (int64 j0 = 0; j0 < columns; j0 += side)
      for (int64 i = 0; i < rows; ++i)
        for (int64 j = j0; j < columns && j < j0 + side; ++j) y[i * y_row + j] = x[i + j * x_column];
  }
}

/// The dimension along which an array runs, or -1.
inline int unit_dimension(const loop<2>& nest, std::size_t array) {
  for (int d = nest.ndim() - 1; d >= 0; --d)
    if (nest.stride(array, d) == 1) return d;
  return -1;
}

/// What a copy of elements of one size is made of, so that the loop nest around it is compiled once.
struct copy_kernels {
  int64 size;  // bytes of an element
  void (*row)(int64 n, const void* x, int64 sx, void* y, int64 sy);
  void (*transposed)(int64 rows, int64 columns, const void* x, int64 x_column, void* y, int64 y_row);
};
template <class Bits>
constexpr copy_kernels copy_kernels_of() {
  return {sizeof(Bits), move_row<Bits>, move_transposed<Bits>};
}

WEFT_LINKED void copy(team& workers, loop<2> nest, const copy_kernels& kernels, const void* from, void* to) {
  const auto x = [&](int64 at) { return static_cast<const char*>(from) + at * kernels.size; };
  const auto y = [&](int64 at) { return static_cast<char*>(to) + at * kernels.size; };
  const int to_last = unit_dimension(nest, 1), along = unit_dimension(nest, 0), last = nest.ndim() - 1;
  if (to_last < 0 || along < 0 || to_last == along) {
    const int64 n = nest.inner(), sx = nest.inner_stride(0), sy = nest.inner_stride(1);
    for_rows(workers, nest.outer(), n, [&](int64 begin, int64 end) {
      nest.each(begin, end, [&](const std::array<int64, 2>& at) { kernels.row(n, x(at[0]), sx, y(at[1]), sy); });
    });
    return;
  }
  if (to_last != last) return copy(workers, nest.with_last(to_last), kernels, from, to);
  // Transposed: tasks are bands of 64 of dimension `along`, for every index of the dimensions that remain.
  constexpr int64 band = 64;
  const int64 rows = nest.extent(along), columns = nest.inner(), bands = (rows + band - 1) / band;
  const int64 x_column = nest.stride(0, last), y_row = nest.stride(1, along);
  const loop<2> rest = nest.without(along);
  workers.parallel_for(rest.outer() * bands, [&](int64 task) {
    const auto at = rest.offsets(task / bands);
    const int64 first = task % bands * band, n = rows - first < band ? rows - first : band;
    kernels.transposed(n, columns, x(at[0] + first), x_column, y(at[1] + first * y_row), y_row);
  });
}

}  // namespace detail

/// y[i...] = x[i...] over `ndim` <= 8 extents; strides in elements, which are of 1, 2, 4 or 8 bytes.
WEFT_LINKED void copy(team& workers, int ndim, const int64* extents, std::size_t size, const void* x,
                      const int64* x_strides, void* y, const int64* y_strides) {
  const auto kernels = size == 8   ? detail::copy_kernels_of<std::uint64_t>()
                       : size == 4 ? detail::copy_kernels_of<std::uint32_t>()
                       : size == 2 ? detail::copy_kernels_of<std::uint16_t>()
                                   : detail::copy_kernels_of<std::uint8_t>();
  detail::copy(workers, detail::loop<2>(ndim, extents, {x_strides, y_strides}), kernels, x, y);
}

}  // namespace weft::cpu
