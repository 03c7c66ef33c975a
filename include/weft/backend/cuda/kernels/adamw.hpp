// AdamW (Loshchilov & Hutter 2019) in one pass over master weights, moments, gradient and working copy, and what is
// done once of a few numbers; as kernel bodies. Invariant: each array is read and written once.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/backend/cuda/kernel.hpp>

namespace weft::gpu {

/// g times grad_scale first; m = beta1 m + (1-beta1) g, v = beta2 v + (1-beta2) g^2, master -= lr (m/bias1 /
/// (sqrt(v/bias2) + eps) + decay * master), without decay where `decaying` hasn't the element; working, which may be
/// null or the master, is the master rounded. Nothing is written where grad_scale is NaN in memory.
template <class M, class G, class W>
struct adamw_kernel {
  int64 n;
  kernel_number grad_scale;
  M beta1, beta2, rest1, rest2, lr, root2, eps, decay;  // lr / bias1, 1 / sqrt(bias2), lr * weight_decay
  decay_ranges decaying;
  M *master, *first, *second;
  const G* g;
  W* working;
  bool packed;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    if (!grad_scale.writes()) return;
    const M scale = static_cast<M>(grad_scale.value());
    int range = 0;
    for_packs_of_grid<pack_size<M>>(block, n, packed, [&]<int N>(int64 i) {
      const pack<G, N> in = block.template load<N>(g + i);
      pack<M, N> w = block.template load<N>(static_cast<const M*>(master) + i),
                 m = block.template load<N>(static_cast<const M*>(first) + i),
                 v = block.template load<N>(static_cast<const M*>(second) + i);
      pack<W, N> out;
      for (int k = 0; k < N; ++k) {
        const M gradient = static_cast<M>(block.widen(in.at[k])) * scale;
        m.at[k] = block.fma(m.at[k], beta1, gradient * rest1);
        v.at[k] = block.fma(v.at[k], beta2, gradient * rest2 * gradient);  // no sooner too large than it
        const M own_decay = decaying.has(i + k, range) ? decay : M(0);
        w.at[k] -= m.at[k] * lr / (block.sqrt(v.at[k]) * root2 + eps) + own_decay * w.at[k];
        out.at[k] = block.template narrow<W>(w.at[k]);
      }
      block.store(first + i, m);
      block.store(second + i, v);
      block.store(master + i, w);
      if (working) block.store(working + i, out);
    });
  }
};

/// f(), by one thread.
template <class F>
struct once_kernel {
  F f;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    if (block.index() == 0 && block.thread() == 0) f();
  }
};

}  // namespace weft::gpu
