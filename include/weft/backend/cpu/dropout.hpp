// Dropout (Srivastava et al. 2014), inverted: what is kept grows by 1 / (1 - rate).
// Invariant: whether an element is kept is philox{seed, stream}.word(its global index) >= rate * 2^32, whoever holds
// it.
#pragma once

#include <weft/backend/cpu/vmath.hpp>
#include <weft/core/error.hpp>

#define WEFT_KERNELS <weft/backend/cpu/dropout.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu {

namespace detail {

template <class T>
void dropout_run(const dropout_mask& mask, int64 first, int64 n, const T* x, T* y, bool add) {
  const auto threshold = static_cast<std::uint32_t>(mask.rate * 0x1p32);
  const auto factor = static_cast<accumulate_t<T>>(1 / (1 - mask.rate));
  WEFT_DISPATCH(dropout_run, mask.seed, mask.stream, threshold, factor, first, n, x, y, add);
}

}  // namespace detail

/// y (+)= x / (1 - rate) where an element is kept, else 0 * x. Linear in x: the backward is the same of dy. y may be x
/// when not adding. Throws unless 0 <= rate < 1.  // x, y: the slice `at` of the whole tensor, row-major
template <class T>
void dropout(team& workers, const dropout_mask& mask, const placed_slice& at, const T* x, T* y, bool add) {
  require(mask.rate >= 0 && mask.rate < 1, "a dropout rate is from 0 to below 1, not ", mask.rate);
  int outer = at.ndim;  // dimensions before those in which neighbours here are neighbours in the whole
  int64 run = 1, rows = 1;
  while (outer > 0) {
    --outer;
    run *= at.local[outer];
    if (at.local[outer] != at.global[outer]) break;
  }
  for (int d = 0; d < outer; ++d) rows *= at.local[d];
  int64 inner = 1;  // elements of the whole for each step of dimension outer - 1
  for (int d = outer; d < at.ndim; ++d) inner *= at.global[d];
  int64 inside = 0;  // where a run begins among them
  for (int d = outer; d < at.ndim; ++d) inside = inside * at.global[d] + at.first[d];
  constexpr int64 most = detail::block_elements;
  const int64 pieces = (run + most - 1) / most, group = run < most ? most / (run > 0 ? run : 1) : 1;
  detail::for_blocks(workers, rows * pieces, group, [&](int64 begin, int64 end) {
    for (int64 task = begin; task < end; ++task) {
      const int64 row = task / pieces, offset = task % pieces * most;
      int64 whole_row = 0, left = row, step = 1;
      for (int d = outer - 1; d >= 0; --d) {
        whole_row += (left % at.local[d] + at.first[d]) * step;
        step *= at.global[d];
        left /= at.local[d];
      }
      const int64 here = row * run + offset, n = run - offset < most ? run - offset : most;
      detail::dropout_run(mask, whole_row * inner + inside + offset, n, x + here, y + here, add);
    }
  });
}

}  // namespace weft::cpu
