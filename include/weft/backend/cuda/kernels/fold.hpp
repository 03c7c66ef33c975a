// What ranks reduce, folded from all of their arrays at once, as a kernel body. Invariant: every element is folded in
// the order of ranks, those of 16 bits in float and rounded once: the bits that threads give on the host.
// Of n elements of each output, from i inputs to o outputs that are alike:
//   fold_kernel: (i + o) n T bytes, (i - 1) n FLOPs
#pragma once

#include <weft/backend/cuda/kernel.hpp>
#include <weft/comm/call.hpp>

namespace weft::gpu {

/// Ranks that may share a device.
inline constexpr int most_ranks = 64;

/// out[k][i] = fold over r of in[r][i] for every k < outputs, n elements; `scattered`: out[k][i] = fold over r of
/// in[r][k n + i]. An output may be the part of an input that is folded into it.
/// Bytes: (ranks + 1) n elements each output; unscattered, (ranks + outputs) n. One thread reads and writes an element.
template <class T>
struct fold_kernel {
  int64 n;
  int ranks, outputs;
  reduction how;
  bool scattered, packed;
  array_of<const T*, most_ranks> in;
  array_of<T*, most_ranks> out;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for (int row = 0; row < (scattered ? outputs : 1); ++row)
      for_packs_of_grid<pack_size<T>>(block, n, packed, [&]<int N>(int64 i) {
        pack<wide, N> sum = read<N>(block, in[0] + row * n + i);
        for (int r = 1; r < ranks; ++r) {
          const pack<wide, N> next = read<N>(block, in[r] + row * n + i);
          WEFT_UNROLLED for (int k = 0; k < N; ++k) sum.at[k] = join(sum.at[k], next.at[k]);
        }
        pack<T, N> folded;
        WEFT_UNROLLED for (int k = 0; k < N; ++k) {
          if constexpr (floating<T>)
            folded.at[k] = block.template narrow<T>(sum.at[k]);
          else
            folded.at[k] = sum.at[k];
        }
        if (scattered)
          block.store(out[row] + i, folded);
        else
          for (int r = 0; r < outputs; ++r) block.store(out[r] + i, folded);
      });
  }

 private:
  using wide = std::conditional_t<sizeof(T) == 2, float, T>;

  template <int N, class Block>
  WEFT_ON_DEVICE static pack<wide, N> read(const Block& block, const T* from) {
    const pack<T, N> as = block.template load<N>(from);
    pack<wide, N> out;
    WEFT_UNROLLED for (int k = 0; k < N; ++k) {
      if constexpr (sizeof(T) == 2)
        out.at[k] = block.widen(as.at[k]);
      else
        out.at[k] = as.at[k];
    }
    return out;
  }
  WEFT_ON_DEVICE wide join(wide a, wide b) const {
    if (how == reduction::sum) {
      if constexpr (floating<T>)
        return a + b;
      else
        return static_cast<wide>(static_cast<std::make_unsigned_t<wide>>(a) +
                                 static_cast<std::make_unsigned_t<wide>>(b));
    }
    const bool takes = how == reduction::max ? b > a : b < a;
    return takes || b != b ? b : a;
  }
};

}  // namespace weft::gpu
