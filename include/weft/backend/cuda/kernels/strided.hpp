// A loop over several strided arrays of one shape, for kernels: an index becomes an offset in each. Invariant:
// dimensions are joined and packs found on the host, once a launch; the order of elements is row-major in the extents
// given.
#pragma once

#include <weft/backend/cuda/kernel.hpp>
#include <weft/core/error.hpp>

namespace weft::gpu {

/// `Arrays` arrays, whose elements, or packs of neighbours, are met one by one.
template <int Arrays>
struct strided_loop {
  static constexpr int most = 8;
  int64 n = 1;                          // packs, or elements
  int ndim = 0;                         // dimensions left, the last first
  int neighbours = 1;                   // elements of a pack
  bool small = true;                    // every index fits 32 bits
  array_of<bool, Arrays> repeats = {};  // whether a pack is one element, repeated
  array_of<int64, most> extent = {};
  array_of<array_of<int64, most>, Arrays> stride = {};

  /// Over `ndim` extents with each array's strides, in elements; packs of `wanted` where they all can be loaded at
  /// once, `aligned` being whether every array is.
  static strided_loop over(int ndim, const int64* extents, const array_of<const int64*, Arrays>& strides, int wanted,
                           bool aligned) {
    require(ndim >= 0 && ndim <= most, "a strided kernel takes at most ", most, " dimensions, not ", ndim,
            ": join dimensions first.");
    strided_loop loop;
    for (int d = ndim - 1; d >= 0; --d) {
      loop.n *= extents[d];
      if (extents[d] == 1) continue;
      bool joins = loop.ndim > 0;
      const int last = loop.ndim - 1;
      for (int a = 0; a < Arrays; ++a) joins = joins && strides[a][d] == loop.stride[a][last] * loop.extent[last];
      if (joins) {
        loop.extent[last] *= extents[d];
        continue;
      }
      loop.extent[loop.ndim] = extents[d];
      for (int a = 0; a < Arrays; ++a) loop.stride[a][loop.ndim] = strides[a][d];
      ++loop.ndim;
    }
    if (loop.ndim == 0) loop.ndim = 1, loop.extent[0] = loop.n;
    loop.small = loop.n < (int64{1} << 31);
    bool packs = aligned && loop.extent[0] % wanted == 0 && loop.n > 0;
    for (int a = 0; a < Arrays; ++a) {
      packs = packs && (loop.stride[a][0] == 0 || loop.stride[a][0] == 1);
      for (int d = 1; d < loop.ndim && loop.stride[a][0] == 1; ++d) packs = packs && loop.stride[a][d] % wanted == 0;
    }
    if (!packs) return loop;
    loop.neighbours = wanted, loop.n /= wanted, loop.extent[0] /= wanted;
    for (int a = 0; a < Arrays; ++a) loop.repeats[a] = loop.stride[a][0] == 0, loop.stride[a][0] *= wanted;
    return loop;
  }

  /// Where pack or element i begins in each array.
  WEFT_ON_DEVICE void offsets(int64 i, array_of<int64, Arrays>& at) const {
    if (small)
      find(static_cast<std::uint32_t>(i), at);
    else
      find(static_cast<std::uint64_t>(i), at);
  }
  /// The pack of array a that begins at x.
  template <int N, class Block, class T>
  WEFT_ON_DEVICE pack<T, N> load(const Block& block, int a, const T* x) const {
    if (!repeats[a]) return block.template load<N>(x);
    pack<T, N> out;
    for (int k = 0; k < N; ++k) out.at[k] = *x;
    return out;
  }

 private:
  template <class Index>
  WEFT_ON_DEVICE void find(Index i, array_of<int64, Arrays>& at) const {
    for (int a = 0; a < Arrays; ++a) at[a] = 0;
    for (int d = 0; d < ndim; ++d) {
      Index here = i;
      if (d + 1 < ndim) {
        const Index rest = i / static_cast<Index>(extent[d]);
        here = i - rest * static_cast<Index>(extent[d]), i = rest;
      }
      for (int a = 0; a < Arrays; ++a) at[a] += static_cast<int64>(here) * stride[a][d];
    }
  }
};

}  // namespace weft::gpu
