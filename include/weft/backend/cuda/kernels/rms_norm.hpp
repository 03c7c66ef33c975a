// RMSNorm (Zhang & Sennrich 2019) over rows and its backward, as kernel bodies: a block takes whole rows.
// Invariant: which block takes which row depends on the grid alone, and sums are formed in a fixed order.
// Of n elements in r rows of w, and p blocks, with sums in A:
//   rms_norm_kernel: 2 n T + w T + A r bytes, 4 n FLOPs
//   rms_norm_backward_kernel: 3 n T + w T + p w A + A r bytes, 9 n FLOPs
#pragma once

#include <weft/backend/cuda/kernels/reduce.hpp>

namespace weft::gpu {

/// y = x * rstd * weight, rstd[row] = 1 / sqrt(mean(x^2) + eps).  // x, y [rows, width], weight [width], rstd [rows]
/// rstd may be null. Shared memory: one A a warp.
template <class T>
struct rms_norm_kernel {
  using A = accumulate_t<T>;
  int64 rows, width;
  A eps;
  const T *x, *weight;
  T* y;
  A* rstd;
  bool packed;  // x, weight and y are aligned for packs in every row

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for (int64 row = block.index(); row < rows; row += block.blocks()) {
      const T* px = x + row * width;
      T* py = y + row * width;
      A squares = 0;
      for_packs<pack_size<T>>(block.thread(), block.threads(), width, packed, [&]<int N>(int64 i) {
        const pack<T, N> p = block.template load<N>(px + i);
        for (int k = 0; k < N; ++k) squares += block.widen(p.at[k]) * block.widen(p.at[k]);
      });
      const A r = 1 / block.sqrt(block_sum(block, squares, block.template shared<A>()) / static_cast<A>(width) + eps);
      for_packs<pack_size<T>>(block.thread(), block.threads(), width, packed, [&]<int N>(int64 i) {
        const pack<T, N> p = block.template load<N>(px + i), w = block.template load<N>(weight + i);
        pack<T, N> out;
        for (int k = 0; k < N; ++k)
          out.at[k] = block.template narrow<T>(block.widen(p.at[k]) * r * block.widen(w.at[k]));
        block.store(py + i, out);
      });
      if (rstd && block.thread() == 0) rstd[row] = r;
    }
  }
};

/// dx (+)= rstd * (w*dy - x * rstd^2 * mean(w*dy*x)), and each block's sum over its rows of dy * x * rstd in
/// parts [blocks, width]; dx or parts may be null, and weight where dx is. Shared memory: one A a warp.
template <class T>
struct rms_norm_backward_kernel {
  using A = accumulate_t<T>;
  int64 rows, width;
  const T *x, *weight;
  const A* rstd;
  const T* dy;
  T* dx;
  bool add_dx;
  A* parts;
  bool packed;  // x, weight, dy and dx are aligned for packs in every row

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    // A column belongs to one thread in all of the block's rows, so its part needs no barrier.
    A* part = parts ? parts + block.index() * width : nullptr;
    bool first = true;
    for (int64 row = block.index(); row < rows; row += block.blocks()) {
      const T *px = x + row * width, *pd = dy + row * width;
      const A r = rstd[row];
      A dot = 0;
      for_packs<pack_size<A>>(block.thread(), block.threads(), width, packed, [&]<int N>(int64 i) {
        const pack<T, N> p = block.template load<N>(px + i), d = block.template load<N>(pd + i);
        pack<T, N> w{};
        pack<A, N> sums{};
        if (dx) w = block.template load<N>(weight + i);
        if (part && !first) sums = block.template load<N>(static_cast<const A*>(part) + i);
        for (int k = 0; k < N; ++k) {
          const A product = block.widen(d.at[k]) * block.widen(p.at[k]);
          dot += block.widen(w.at[k]) * product;
          sums.at[k] += product * r;
        }
        if (part) block.store(part + i, sums);
      });
      first = false;
      if (!dx) continue;
      T* pdx = dx + row * width;
      const A c = block_sum(block, dot, block.template shared<A>()) * r * r / static_cast<A>(width);
      for_packs<pack_size<T>>(block.thread(), block.threads(), width, packed, [&]<int N>(int64 i) {
        const pack<T, N> p = block.template load<N>(px + i), d = block.template load<N>(pd + i),
                         w = block.template load<N>(weight + i);
        pack<T, N> old{}, out;
        if (add_dx) old = block.template load<N>(static_cast<const T*>(pdx) + i);
        for (int k = 0; k < N; ++k)
          out.at[k] = block.template narrow<T>(
              block.widen(old.at[k]) + r * (block.widen(w.at[k]) * block.widen(d.at[k]) - block.widen(p.at[k]) * c));
        block.store(pdx + i, out);
      });
    }
  }
};

}  // namespace weft::gpu
