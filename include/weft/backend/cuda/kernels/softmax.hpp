// Softmax over the middle dimension of [outer, n, inner] and its backward, as kernel bodies: a warp takes a line.
// Invariant: the largest element is subtracted first, so nothing overflows; an element is written by the lane that
// reads it, so y may be x and dx dy.
// Of n elements:
//   softmax_kernel: 2 n T bytes, 4 n FLOPs
//   softmax_backward_kernel: 3 n T bytes, 4 n FLOPs
#pragma once

#include <weft/backend/cuda/kernels/reduce.hpp>

namespace weft::gpu {

/// Calls f(first) for each of the lines that are this warp's, whose elements lie `inner` apart.
template <class Block, class F>
WEFT_ON_DEVICE void for_lines(Block& block, int64 outer, int64 n, int64 inner, F f) {
  const int64 warps = block.blocks() * block.warps();
  for (int64 line = block.index() * block.warps() + block.warp(); line < outer * inner; line += warps)
    f(line / inner * n * inner + line % inner);
}

/// y = exp(x - max x) / sum exp(x - max x).
template <class T>
struct softmax_kernel {
  int64 outer, n, inner;
  const T* x;
  T* y;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    using A = accumulate_t<T>;
    for_lines(block, outer, n, inner, [&](int64 first) {
      A most = start_of<reduce::max, A>(), sum = 0;
      for (int64 i = block.lane(); i < n; i += warp_size)
        most = join<reduce::max>(most, block.widen(x[first + i * inner]));
      most = warp_reduce<reduce::max>(block, most);
      for (int64 i = block.lane(); i < n; i += warp_size) sum += block.exp(block.widen(x[first + i * inner]) - most);
      sum = warp_sum(block, sum);
      for (int64 i = block.lane(); i < n; i += warp_size) {
        const A value = block.exp(block.widen(x[first + i * inner]) - most);
        y[first + i * inner] = block.template narrow<T>(value / sum);
      }
    });
  }
};

/// dx (+)= y * (dy - sum(y * dy)).
template <class T>
struct softmax_backward_kernel {
  int64 outer, n, inner;
  const T *y, *dy;
  T* dx;
  bool add;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    using A = accumulate_t<T>;
    for_lines(block, outer, n, inner, [&](int64 first) {
      A dot = 0;
      for (int64 i = block.lane(); i < n; i += warp_size)
        dot += block.widen(y[first + i * inner]) * block.widen(dy[first + i * inner]);
      dot = warp_sum(block, dot);
      for (int64 i = block.lane(); i < n; i += warp_size) {
        const int64 at = first + i * inner;
        const A slope = block.widen(y[at]) * (block.widen(dy[at]) - dot);
        dx[at] = block.template narrow<T>(add ? block.widen(dx[at]) + slope : slope);
      }
    });
  }
};

}  // namespace weft::gpu
