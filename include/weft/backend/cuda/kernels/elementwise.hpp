// Filling, copying and converting, as kernel bodies. Invariant: a number is rounded once, to nearest.
// Of n elements of T, or of both types:
//   fill_kernel: n T bytes, 0 FLOPs
//   strided_copy_kernel: 2 n T bytes, 0 FLOPs
//   convert_kernel: n (From + To) bytes, 0 FLOPs
#pragma once

#include <weft/backend/cuda/kernels/strided.hpp>

namespace weft::gpu {

template <class T>
struct fill_kernel {
  int64 n;
  T number;
  T* y;
  bool packed;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<pack_size<T>>(block, n, packed, [&]<int N>(int64 i) {
      pack<T, N> out;
      for (int k = 0; k < N; ++k) out.at[k] = number;
      block.store(y + i, out);
    });
  }
};

/// An element moved as bits, whatever its type.
template <class Bits>
struct [[gnu::may_alias]] moved_bits {
  Bits bits;
};

/// to = from, two strided arrays.
template <class T>
struct strided_copy_kernel {
  strided_loop<2> loop;  // from, to
  const T* from;
  T* to;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<1>(block, loop.n, false, [&]<int>(int64 i) {
      array_of<int64, 2> at;
      loop.offsets(i, at);
      if (loop.neighbours > 1)
        block.store(to + at[1], loop.template load<pack_size<T>>(block, 0, from + at[0]));
      else
        to[at[1]] = from[at[0]];
    });
  }
};

/// y (+)= x in another floating type.
template <class From, class To>
struct convert_kernel {
  static constexpr int count = pack_size<From> < pack_size<To> ? pack_size<From> : pack_size<To>;  // of the wider type
  int64 n;
  const From* x;
  To* y;
  bool add;
  bool packed;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<count>(block, n, packed, [&]<int N>(int64 i) {
      const pack<From, N> in = block.template load<N>(x + i);
      pack<To, N> old{}, out;
      if (add) old = block.template load<N>(static_cast<const To*>(y) + i);
      for (int k = 0; k < N; ++k)
        out.at[k] =
            block.template narrow<To>(add ? block.widen(in.at[k]) + block.widen(old.at[k]) : block.widen(in.at[k]));
      block.store(y + i, out);
    });
  }
};

}  // namespace weft::gpu
