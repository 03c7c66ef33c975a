// The parts that blocks have made of a sum over rows, added up. Invariant: in the order of the parts, a run of them a
// warp, then the warps' sums.
// Of s numbers of A in all parts, to w of G:
//   sum_parts_kernel: s A + w G bytes, s FLOPs
#pragma once

#include <weft/backend/cuda/kernel.hpp>

namespace weft::gpu {

/// out[i] (+)= sum over p of parts[p, i].  // parts [count, width], out [width]
/// Shared memory: an A a thread.
template <class A, class G>
struct sum_parts_kernel {
  int64 count, width;
  const A* parts;
  G* out;
  bool add;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    A* const sums = block.template shared<A>();  // [warps, lanes]
    const int64 run = (count + block.warps() - 1) / block.warps(), first = block.warp() * run;
    const int64 last = first + run < count ? first + run : count;
    for (int64 tile = block.index() * warp_size; tile < width; tile += block.blocks() * warp_size) {
      const int64 i = tile + block.lane();
      A sum = 0;
      if (i < width)
        for (int64 p = first; p < last; ++p) sum += parts[p * width + i];
      sums[block.thread()] = sum;
      block.sync();
      if (block.warp() == 0 && i < width) {
        A total = add ? static_cast<A>(block.widen(out[i])) : A(0);
        for (int w = 0; w < block.warps(); ++w) total += sums[w * warp_size + block.lane()];
        out[i] = block.template narrow<G>(total);
      }
      block.sync();
    }
  }
};

}  // namespace weft::gpu
