// Filling, copying and converting, as kernel bodies. Invariant: a number is rounded once, to nearest.
#pragma once

#include <weft/backend/cuda/kernel.hpp>

namespace weft::cuda {

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

/// to = from, over n = the product of the extents, each array with its own strides in elements. Extents not used are 1.
template <class T>
struct strided_copy_kernel {
  static constexpr int max_extents = 8;
  int64 n;
  int64 extent[max_extents], from_stride[max_extents], to_stride[max_extents];
  const T* from;
  T* to;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<1>(block, n, false, [&]<int>(int64 i) {
      const T* x = from;
      T* y = to;
      for (int d = max_extents - 1; d >= 0; --d) {
        x += i % extent[d] * from_stride[d];
        y += i % extent[d] * to_stride[d];
        i /= extent[d];
      }
      *y = *x;
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

}  // namespace weft::cuda
