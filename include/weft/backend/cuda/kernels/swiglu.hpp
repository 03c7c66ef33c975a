// SwiGLU (Shazeer 2020), silu(gate) * up, and its backward, as kernel bodies. Invariant: each element is read by the
// thread that writes it, before it writes, so the outputs may lie where the inputs do.
// Of n elements:
//   swiglu_kernel: 3 n T bytes, 5 n FLOPs
//   swiglu_backward_kernel: 5 n T bytes, 12 n FLOPs
#pragma once

#include <weft/backend/cuda/kernel.hpp>

namespace weft::gpu {

/// y = silu(gate) * up, n elements each.
template <class T>
struct swiglu_kernel {
  int64 n;
  const T *gate, *up;
  T* y;
  bool packed;  // all three are aligned for packs

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    using A = accumulate_t<T>;
    for_packs_of_grid<pack_size<T>>(block, n, packed, [&]<int N>(int64 i) {
      const pack<T, N> g = block.template load<N>(gate + i), u = block.template load<N>(up + i);
      pack<T, N> out;
      for (int k = 0; k < N; ++k) {
        const A x = block.widen(g.at[k]);
        out.at[k] = block.template narrow<T>(1 / (1 + block.exp(-x)) * x * block.widen(u.at[k]));
      }
      block.store(y + i, out);
    });
  }
};

/// dgate (+)= dy * up * silu'(gate), dup (+)= dy * silu(gate). dgate may be gate, and dup may be up or dy.
template <class T>
struct swiglu_backward_kernel {
  int64 n;
  const T *gate, *up, *dy;
  T* dgate;
  bool add_gate;
  T* dup;
  bool add_up;
  bool packed;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    using A = accumulate_t<T>;
    for_packs_of_grid<pack_size<T>>(block, n, packed, [&]<int N>(int64 i) {
      const pack<T, N> g = block.template load<N>(gate + i), u = block.template load<N>(up + i),
                       d = block.template load<N>(dy + i);
      pack<T, N> old_gate{}, old_up{}, out_gate, out_up;
      if (add_gate) old_gate = block.template load<N>(static_cast<const T*>(dgate) + i);
      if (add_up) old_up = block.template load<N>(static_cast<const T*>(dup) + i);
      for (int k = 0; k < N; ++k) {
        const A x = block.widen(g.at[k]), up_k = block.widen(u.at[k]), dy_k = block.widen(d.at[k]);
        const A s = 1 / (1 + block.exp(-x));
        out_gate.at[k] = block.template narrow<T>(block.widen(old_gate.at[k]) + dy_k * up_k * s * (1 + x * (1 - s)));
        out_up.at[k] = block.template narrow<T>(block.widen(old_up.at[k]) + dy_k * x * s);
      }
      block.store(dgate + i, out_gate);
      block.store(dup + i, out_up);
    });
  }
};

}  // namespace weft::gpu
