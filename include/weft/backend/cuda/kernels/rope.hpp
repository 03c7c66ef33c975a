// Rotary position embedding (Su et al. 2021), half-split, as a kernel body. Invariant: both elements of a pair are read
// by the thread that writes them, so y may be x.
// Of n elements, and angles for h of half as many positions and pairs:
//   rope_kernel: 2 n T + 2 h A bytes, 3 n FLOPs
#pragma once

#include <weft/backend/cuda/kernel.hpp>

namespace weft::gpu {

/// y (+)= x, each pair (i, i + half) of a head turned by its position's angle times `direction`.
/// x, y [batch, seq, heads, 2 * half], cos, sin [positions, half]; position s reads row first + s
template <class T>
struct rope_kernel {
  using A = accumulate_t<T>;
  static constexpr int together = pack_size<A>;  // pairs of a thread: as many angles as one load brings
  int64 batch, seq, heads, half;
  const T* x;
  const A *cos, *sin;
  int64 first;
  A direction;
  T* y;
  bool add, packed;  // packed: half is a multiple of `together`, and all arrays are aligned for packs

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<together>(block, batch * seq * heads * half, packed, [&]<int N>(int64 i) {
      const int64 head = i / half, at = i % half, low = head * 2 * half + at, high = low + half;
      const int64 angle = (first + head / heads % seq) * half + at;
      const pack<T, N> a = block.template load<N>(x + low), b = block.template load<N>(x + high);
      pack<T, N> old_a{}, old_b{}, out_a, out_b;
      if (add) {
        old_a = block.template load<N>(static_cast<const T*>(y) + low);
        old_b = block.template load<N>(static_cast<const T*>(y) + high);
      }
      const pack<A, N> of_cos = block.template load<N>(cos + angle), of_sin = block.template load<N>(sin + angle);
      WEFT_UNROLLED for (int k = 0; k < N; ++k) {
        const A c = of_cos.at[k], s = of_sin.at[k] * direction;
        const A u = block.widen(a.at[k]), v = block.widen(b.at[k]);
        const A turned_u = u * c - v * s, turned_v = v * c + u * s;
        out_a.at[k] = block.template narrow<T>(add ? block.widen(old_a.at[k]) + turned_u : turned_u);
        out_b.at[k] = block.template narrow<T>(add ? block.widen(old_b.at[k]) + turned_v : turned_v);
      }
      block.store(y + low, out_a);
      block.store(y + high, out_b);
    });
  }
};

}  // namespace weft::gpu
