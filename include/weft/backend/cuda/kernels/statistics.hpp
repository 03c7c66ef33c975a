// What is said of a whole array: its sum of squares, its extremes and how much of it is not finite; as kernel bodies.
// Invariant: each of a fixed number of blocks makes one part, and sums are in double.
// Of n elements, and p blocks:
//   squares_kernel: n T + 8 p bytes, 2 n FLOPs
//   sum_squares_kernel: 8 p bytes, p FLOPs
//   statistics_kernel: n T + 40 p bytes, 4 n FLOPs
//   zero_not_finite_kernel: n T + 8 p bytes, 0 FLOPs
#pragma once

#include <weft/backend/cuda/kernels/reduce.hpp>

namespace weft::gpu {

/// parts[block] = the sum of squares of a block's elements; where there is one block, *to (+)= it.
/// x [n], parts [blocks]
template <class T>
struct squares_kernel {
  int64 n;
  const T* x;
  double *parts, *to;
  bool add, packed;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    double sum = 0;
    for_packs_of_grid<pack_size<T>>(block, n, packed, [&]<int N>(int64 i) {
      const pack<T, N> in = block.template load<N>(x + i);
      for (int k = 0; k < N; ++k) {
        const double v = static_cast<double>(block.widen(in.at[k]));
        sum += v * v;
      }
    });
    sum = block_sum(block, sum, block.template shared<double>());
    if (block.thread() != 0) return;
    if (block.blocks() > 1)
      parts[block.index()] = sum;
    else
      *to = add ? *to + sum : sum;
  }
};
/// *to (+)= the sum of the parts. One block.
struct sum_squares_kernel {
  int64 count;
  const double* parts;
  double* to;
  bool add;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    double sum = 0;
    for (int64 i = block.thread(); i < count; i += block.threads()) sum += parts[i];
    sum = block_sum(block, sum, block.template shared<double>());
    if (block.thread() == 0) *to = add ? *to + sum : sum;
  }
};

/// parts[block] = the statistics of a block's elements.
template <class T>
struct statistics_kernel {
  int64 n;
  const T* x;
  array_statistics* parts;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    double squares = 0, lowest = start_of<reduce::min, double>(), highest = start_of<reduce::max, double>();
    double elements = 0, not_finite = 0;  // counts below 2^53
    for_packs_of_grid<1>(block, n, false, [&]<int>(int64 i) {
      const double v = static_cast<double>(block.widen(x[i]));
      elements += 1;
      if (!weft::detail::is_finite(v)) {
        not_finite += 1;
        return;
      }
      squares += v * v;
      lowest = join<reduce::min>(lowest, v);
      highest = join<reduce::max>(highest, v);
    });
    double* const scratch = block.template shared<double>();
    squares = block_sum(block, squares, scratch);
    elements = block_sum(block, elements, scratch);
    not_finite = block_sum(block, not_finite, scratch);
    lowest = block_reduce<reduce::min>(block, lowest, scratch);
    highest = block_reduce<reduce::max>(block, highest, scratch);
    if (block.thread() != 0) return;
    array_statistics* const to = parts + block.index();
    to->squares = squares, to->lowest = lowest, to->highest = highest;
    to->elements = static_cast<int64>(elements), to->not_finite = static_cast<int64>(not_finite);
  }
};

/// x = 0 where it isn't finite; parts[block] = how many of a block's elements weren't.
template <class T>
struct zero_not_finite_kernel {
  int64 n;
  T* x;
  int64* parts;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    int64 count = 0;
    for_packs_of_grid<1>(block, n, false, [&]<int>(int64 i) {
      if (weft::detail::is_finite(static_cast<double>(block.widen(x[i])))) return;
      x[i] = block.template narrow<T>(accumulate_t<T>(0));
      ++count;
    });
    count = block_sum(block, count, block.template shared<int64>());
    if (block.thread() == 0) parts[block.index()] = count;
  }
};

}  // namespace weft::gpu
