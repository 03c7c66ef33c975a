// LayerNorm (Ba, Kiros & Hinton 2016) over rows and its backward, as kernel bodies: a block takes whole rows.
// Invariant: the mean is in double and the variance is taken in a second pass, so a large mean costs no digits; sums
// are formed in a fixed order.
// Of n elements in r rows of w, and p blocks, with sums in A and means in double:
//   layer_norm_kernel: 2 n T + 2 w T + (A + 8) r bytes, 8 n FLOPs
//   layer_norm_backward_kernel: 3 n T + w T + 2 p w A + (A + 8) r bytes, 16 n FLOPs
#pragma once

#include <weft/backend/cuda/kernels/reduce.hpp>

namespace weft::gpu {

/// y = (x - mean) * rstd * weight + bias.  // x, y [rows, width], weight, bias [width], mean, rstd [rows]
/// mean and rstd may be null. Shared memory: one double a warp.
template <class T>
struct layer_norm_kernel {
  using A = accumulate_t<T>;
  int64 rows, width;
  A eps;
  const T *x, *weight, *bias;
  T* y;
  double* mean;
  A* rstd;
  bool packed;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    constexpr int P = pack_size<T>;
    for (int64 row = block.index(); row < rows; row += block.blocks()) {
      const T* px = x + row * width;
      double sum = 0;
      for_packs<P>(block.thread(), block.threads(), width, packed, [&]<int N>(int64 i) {
        const pack<T, N> p = block.template load<N>(px + i);
        for (int k = 0; k < N; ++k) sum += static_cast<double>(block.widen(p.at[k]));
      });
      const double m = block_sum(block, sum, block.template shared<double>()) / static_cast<double>(width);
      A squares = 0;
      for_packs<P>(block.thread(), block.threads(), width, packed, [&]<int N>(int64 i) {
        const pack<T, N> p = block.template load<N>(px + i);
        for (int k = 0; k < N; ++k) {
          const A u = static_cast<A>(static_cast<double>(block.widen(p.at[k])) - m);
          squares += u * u;
        }
      });
      const A r = 1 / block.sqrt(block_sum(block, squares, block.template shared<A>()) / static_cast<A>(width) + eps);
      for_packs<P>(block.thread(), block.threads(), width, packed, [&]<int N>(int64 i) {
        const pack<T, N> p = block.template load<N>(px + i), w = block.template load<N>(weight + i),
                         b = block.template load<N>(bias + i);
        pack<T, N> out;
        for (int k = 0; k < N; ++k) {
          const A u = static_cast<A>(static_cast<double>(block.widen(p.at[k])) - m) * r;
          out.at[k] = block.template narrow<T>(u * block.widen(w.at[k]) + block.widen(b.at[k]));
        }
        block.store(y + row * width + i, out);
      });
      if (block.thread() != 0) continue;
      if (mean) mean[row] = m;
      if (rstd) rstd[row] = r;
    }
  }
};

/// With u = (x - mean) * rstd and g = w*dy: dx (+)= rstd * (g - mean(g) - u * mean(g*u)), and each block's sums over
/// its rows of dy * u, and of dy, in parts [blocks, width] each. Each output may be null, and weight where dx is. dx
/// may be dy where nothing is added. Shared memory: one A a warp.
template <class T>
struct layer_norm_backward_kernel {
  using A = accumulate_t<T>;
  int64 rows, width;
  const T *x, *weight;
  const double* mean;
  const A* rstd;
  const T* dy;
  T* dx;
  bool add_dx;
  A *weight_parts, *bias_parts;
  bool packed;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    constexpr int P = pack_size<T>;
    // A column belongs to one thread in all of the block's rows, so its part needs no barrier.
    A* const of_weight = weight_parts ? weight_parts + block.index() * width : nullptr;
    A* const of_bias = bias_parts ? bias_parts + block.index() * width : nullptr;
    bool first = true;
    for (int64 row = block.index(); row < rows; row += block.blocks()) {
      const T *px = x + row * width, *pd = dy + row * width;
      const double m = mean[row];
      const A r = rstd[row];
      A sum = 0, dot = 0;
      for_packs<pack_size<A>>(block.thread(), block.threads(), width, packed, [&]<int N>(int64 i) {
        const pack<T, N> p = block.template load<N>(px + i), d = block.template load<N>(pd + i);
        pack<T, N> w{};
        pack<A, N> weight_sums{}, bias_sums{};
        if (dx) w = block.template load<N>(weight + i);
        if (of_weight && !first) weight_sums = block.template load<N>(static_cast<const A*>(of_weight) + i);
        if (of_bias && !first) bias_sums = block.template load<N>(static_cast<const A*>(of_bias) + i);
        for (int k = 0; k < N; ++k) {
          const A u = static_cast<A>(static_cast<double>(block.widen(p.at[k])) - m) * r, dy_k = block.widen(d.at[k]);
          const A g = block.widen(w.at[k]) * dy_k;
          sum += g, dot += g * u;
          weight_sums.at[k] += dy_k * u, bias_sums.at[k] += dy_k;
        }
        if (of_weight) block.store(of_weight + i, weight_sums);
        if (of_bias) block.store(of_bias + i, bias_sums);
      });
      first = false;
      if (!dx) continue;
      T* const pdx = dx + row * width;
      const A mean_g = block_sum(block, sum, block.template shared<A>()) / static_cast<A>(width);
      const A mean_gu = block_sum(block, dot, block.template shared<A>()) / static_cast<A>(width);
      for_packs<P>(block.thread(), block.threads(), width, packed, [&]<int N>(int64 i) {
        const pack<T, N> p = block.template load<N>(px + i), d = block.template load<N>(pd + i),
                         w = block.template load<N>(weight + i);
        pack<T, N> old{}, out;
        if (add_dx) old = block.template load<N>(static_cast<const T*>(pdx) + i);
        for (int k = 0; k < N; ++k) {
          const A u = static_cast<A>(static_cast<double>(block.widen(p.at[k])) - m) * r;
          const A slope = r * (block.widen(w.at[k]) * block.widen(d.at[k]) - mean_g - u * mean_gu);
          out.at[k] = block.template narrow<T>(add_dx ? block.widen(old.at[k]) + slope : slope);
        }
        block.store(pdx + i, out);
      });
    }
  }
};

}  // namespace weft::gpu
