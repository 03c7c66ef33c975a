// Softmax of rows that a group of warps holds in registers, and its backward, as kernel bodies. Invariant: as in
// softmax.hpp, with each element read once; rows of any other width, and lines across an array, go there.
// Of n elements:
//   softmax_tile_kernel: 2 n T bytes, 4 n FLOPs
//   softmax_tile_backward_kernel: 3 n T bytes, 4 n FLOPs
#pragma once

#include <weft/backend/cuda/kernels/row_tile.hpp>

namespace weft::gpu {

/// y = exp(x - max x) / sum exp(x - max x) over rows; y may be x. Shared memory: one double a warp.
template <class T>
struct softmax_tile_kernel {
  using A = accumulate_t<T>;
  row_groups groups;
  const T* x;
  T* y;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    constexpr int P = pack_size<T>;
    const row_place place(block, groups);
    for (int64 row = place.row; row - place.group < groups.rows; row += block.blocks() * place.of) {
      row_tile<T> in;
      in.load(block, groups, place, row, x);
      A most = start_of<reduce::max, A>(), sum = 0;
      in.each_inside(groups, place, [&](int, T value) { most = join<reduce::max>(most, block.widen(value)); });
      most = group_reduce<reduce::max>(block, groups, most);
      array_of<array_of<A, P>, row_tile<T>::chunks> exps = {};
      WEFT_UNROLLED for (int c = 0; c < row_tile<T>::chunks; ++c) {
        if (place.template column<T>(c) >= groups.width) continue;
        WEFT_UNROLLED for (int k = 0; k < P; ++k) sum += exps[c][k] = block.exp(block.widen(in.at[c].at[k]) - most);
      }
      sum = group_sum(block, groups, sum);
      if (row >= groups.rows) continue;
      WEFT_UNROLLED for (int c = 0; c < row_tile<T>::chunks; ++c) {
        const int64 i = place.template column<T>(c);
        if (i >= groups.width) continue;
        pack<T, P> out;
        WEFT_UNROLLED for (int k = 0; k < P; ++k) out.at[k] = block.template narrow<T>(exps[c][k] / sum);
        block.store_whole(y + row * groups.width + i, out);
      }
    }
  }
};

/// dx (+)= y * (dy - sum(y * dy)) over rows; dx may be dy where nothing is added. Shared memory: one double a warp.
template <class T>
struct softmax_tile_backward_kernel {
  using A = accumulate_t<T>;
  row_groups groups;
  const T *y, *dy;
  T* dx;
  bool add;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    constexpr int P = pack_size<T>;
    const row_place place(block, groups);
    for (int64 row = place.row; row - place.group < groups.rows; row += block.blocks() * place.of) {
      row_tile<T> out_of, slope;
      out_of.load(block, groups, place, row, y);
      slope.load(block, groups, place, row, dy);
      A dot = 0;
      WEFT_UNROLLED for (int c = 0; c < row_tile<T>::chunks; ++c) WEFT_UNROLLED for (int k = 0; k < P; ++k) dot +=
          block.widen(out_of.at[c].at[k]) * block.widen(slope.at[c].at[k]);
      dot = group_sum(block, groups, dot);
      if (row >= groups.rows) continue;
      WEFT_UNROLLED for (int c = 0; c < row_tile<T>::chunks; ++c) {
        const int64 i = place.template column<T>(c);
        if (i >= groups.width) continue;
        T* const to = dx + row * groups.width + i;
        pack<T, P> old{}, out;
        if (add) old = block.template load<P>(static_cast<const T*>(to));
        WEFT_UNROLLED for (int k = 0; k < P; ++k) {
          const A value = block.widen(out_of.at[c].at[k]) * (block.widen(slope.at[c].at[k]) - dot);
          out.at[k] = block.template narrow<T>(add ? block.widen(old.at[k]) + value : value);
        }
        block.store(to, out);
      }
    }
  }
};

}  // namespace weft::gpu
