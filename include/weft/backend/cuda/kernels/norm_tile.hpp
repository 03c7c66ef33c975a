// RMSNorm and LayerNorm of rows that a group of warps holds in registers, forward and backward, as kernel bodies.
// Invariant: as in rms_norm.hpp and layer_norm.hpp, with each element read once; rows of any other width go there.
// Of n elements in r rows of w, and p blocks, with sums in A; l is 1 for LayerNorm, a is 1 where a residual is added:
//   norm_tile_kernel: (2 + 2 a) n T + (1 + l) w T + (A + 8 l) r bytes, (4 + 6 l + a) n FLOPs
//   norm_tile_backward_kernel: 3 n T + w T + (1 + l) p w A + (A + 8 l) r bytes, (9 + 9 l) n FLOPs
#pragma once

#include <weft/backend/cuda/kernels/row_tile.hpp>

namespace weft::gpu {

/// A mean in double as two numbers of A, the first rounded: value - m is then two subtractions in A, right to a unit in
/// the last place of the difference however large the mean is.
template <class A>
struct split_mean {
  A high, low;
  WEFT_ON_DEVICE explicit split_mean(double m)
      : high(static_cast<A>(m)), low(static_cast<A>(m - static_cast<double>(high))) {}
  WEFT_ON_DEVICE A taken_from(A value) const { return (value - high) - low; }
};

/// y = (x - mean) * rstd * weight + bias where Centred, else x * rstd * weight; mean (null unless Centred) and rstd may
/// be null. Where Adds, x + added, rounded, is written to `sum` and stands for x. Shared memory: one double a warp.
template <class T, bool Centred, bool Adds = false>
struct norm_tile_kernel {
  using A = accumulate_t<T>;
  row_groups groups;
  A eps;
  const T *x, *weight, *bias;
  T* y;
  double* mean;
  A* rstd;
  const T* added = nullptr;
  T* sum = nullptr;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const row_place place(block, groups);
    const A width = static_cast<A>(groups.width);
    for (int64 row = place.row; row - place.group < groups.rows; row += block.blocks() * place.of) {
      row_tile<T> in;
      in.load(block, groups, place, row, x);
      if constexpr (Adds) add_to(block, place, row, in);
      double m = 0;
      if constexpr (Centred) {
        double total = 0;
        in.each([&](int, T value) { total += static_cast<double>(block.widen(value)); });
        m = group_sum(block, groups, total) / static_cast<double>(groups.width);
      }
      const split_mean<A> middle(m);
      const auto centred = [&](T value) {
        if constexpr (Centred)
          return middle.taken_from(block.widen(value));
        else
          return block.widen(value);
      };
      A squares = 0;
      in.each_inside(groups, place, [&](int, T value) { squares += centred(value) * centred(value); });
      const A r = 1 / block.sqrt(group_sum(block, groups, squares) / width + eps);
      if (row >= groups.rows) continue;
      WEFT_UNROLLED for (int c = 0; c < row_tile<T>::chunks; ++c) {
        const int64 i = place.template column<T>(c);
        if (i >= groups.width) continue;
        const auto w = block.template load<pack_size<T>>(weight + i);
        pack<T, pack_size<T>> b{}, out;
        if constexpr (Centred) b = block.template load<pack_size<T>>(bias + i);
        WEFT_UNROLLED for (int k = 0; k < pack_size<T>; ++k) out.at[k] =
            block.template narrow<T>(centred(in.at[c].at[k]) * r * block.widen(w.at[k]) + block.widen(b.at[k]));
        block.store_whole(y + row * groups.width + i, out);
      }
      if (place.thread != 0) continue;
      if (Centred && mean) mean[row] = m;
      if (rstd) rstd[row] = r;
    }
  }

 private:
  template <class Block>
  WEFT_ON_DEVICE void add_to(const Block& block, const row_place& place, int64 row, row_tile<T>& in) const {
    if (row >= groups.rows) return;
    WEFT_UNROLLED for (int c = 0; c < row_tile<T>::chunks; ++c) {
      const int64 i = place.template column<T>(c);
      if (i >= groups.width) continue;
      const auto more = block.template load<pack_size<T>>(added + row * groups.width + i);
      WEFT_UNROLLED for (int k = 0; k < pack_size<T>; ++k) in.at[c].at[k] =
          block.template narrow<T>(block.widen(in.at[c].at[k]) + block.widen(more.at[k]));
      block.store_whole(sum + row * groups.width + i, in.at[c]);
    }
  }
};

/// The gradients: dx (+)=, and each block's sums over its rows of dy * u, and of dy where Centred, in parts
/// [blocks, width] each. Each output may be null, and weight where dx is. Shared memory: shared_bytes.
template <class T, bool Centred>
struct norm_tile_backward_kernel {
  using A = accumulate_t<T>;
  row_groups groups;
  const T *x, *weight;
  const double* mean;
  const A* rstd;
  const T* dy;
  T* dx;
  bool add_dx;
  A *weight_parts, *bias_parts;

  /// An A a warp, and those of the columns' sums.
  static std::size_t shared_bytes(int64 width, int warps) {
    return static_cast<std::size_t>(warps + width + width / 32 + 1) * sizeof(A);
  }
  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    constexpr int P = pack_size<T>;
    const row_place place(block, groups);
    const A width = static_cast<A>(groups.width);
    column_sums of_weight = {}, of_bias = {};  // where not Centred, of_bias isn't looked at
    for (int64 row = place.row; row - place.group < groups.rows; row += block.blocks() * place.of) {
      const bool there = row < groups.rows;
      row_tile<T> in, slope;
      in.load(block, groups, place, row, x);
      slope.load(block, groups, place, row, dy);
      double m = 0;
      if constexpr (Centred) m = there ? mean[row] : 0;
      const A r = there ? rstd[row] : A(0);
      const split_mean<A> middle(m);
      const auto u_of = [&](T value) {
        if constexpr (Centred)
          return middle.taken_from(block.widen(value)) * r;
        else
          return block.widen(value) * r;
      };
      A sum = 0, dot = 0;
      WEFT_UNROLLED for (int c = 0; c < row_tile<T>::chunks; ++c) {
        const int64 i = place.template column<T>(c);
        if (i >= groups.width || !there) continue;
        pack<T, P> w{};
        if (dx) w = block.template load<P>(weight + i);
        WEFT_UNROLLED for (int k = 0; k < P; ++k) {
          const A u = u_of(in.at[c].at[k]), d = block.widen(slope.at[c].at[k]), g = block.widen(w.at[k]) * d;
          sum += g, dot += g * u;
          of_weight[c][k] += d * u;
          if constexpr (Centred) of_bias[c][k] += d;
        }
      }
      if (!dx) continue;
      A mean_g = 0;
      if constexpr (Centred) mean_g = group_sum(block, groups, sum) / width;
      const A mean_gu = group_sum(block, groups, dot) / width;
      if (!there) continue;
      WEFT_UNROLLED for (int c = 0; c < row_tile<T>::chunks; ++c) {
        const int64 i = place.template column<T>(c);
        if (i >= groups.width) continue;
        T* const to = dx + row * groups.width + i;
        const auto w = block.template load<P>(weight + i);
        pack<T, P> old{}, out;
        if (add_dx) old = block.template load<P>(static_cast<const T*>(to));
        WEFT_UNROLLED for (int k = 0; k < P; ++k) {
          const A g = block.widen(w.at[k]) * block.widen(slope.at[c].at[k]);
          const A value = r * (g - mean_g - u_of(in.at[c].at[k]) * mean_gu);
          out.at[k] = block.template narrow<T>(add_dx ? block.widen(old.at[k]) + value : value);
        }
        block.store(to, out);
      }
    }
    if (weight_parts) join_groups(block, place, of_weight, weight_parts);
    if constexpr (Centred)
      if (bias_parts) join_groups(block, place, of_bias, bias_parts);
  }

 private:
  using column_sums = array_of<array_of<A, pack_size<T>>, row_tile<T>::chunks>;

  // Where a column's sum lies: a word further on behind every 32, so that lanes, who have neighbours each, are in banks
  // of their own. Those of a pack stay neighbours.
  static WEFT_ON_DEVICE int64 spot(int64 column) { return column + (column >> 5); }
  // The groups' sums, group after group, into the block's part.
  template <class Block>
  WEFT_ON_DEVICE void join_groups(Block& block, const row_place& place, const column_sums& sums, A* parts) const {
    A* const all = group_scratch<A>(block) + block.warps();
    for (int g = 0; g < place.of; ++g) {
      if (g == place.group) WEFT_UNROLLED for (int c = 0; c < row_tile<T>::chunks; ++c) {
          const int64 i = place.template column<T>(c);
          if (i >= groups.width) continue;
          A* const own = all + spot(i);
          WEFT_UNROLLED for (int k = 0; k < pack_size<T>; ++k) own[k] = g == 0 ? sums[c][k] : own[k] + sums[c][k];
        }
      block.sync();
    }
    for (int64 i = block.thread(); i < groups.width; i += block.threads())
      parts[block.index() * groups.width + i] = all[spot(i)];
    block.sync();
  }
};

}  // namespace weft::gpu
