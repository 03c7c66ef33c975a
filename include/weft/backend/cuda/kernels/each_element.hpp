// What a caller brings, run over strided arrays of one shape, as a kernel body. Invariant: every element is met once.
#pragma once

#include <array>

#include <weft/backend/cuda/kernels/strided.hpp>

namespace weft::gpu {

/// f(where element i lies in each array, ...), as `Lines` has it: f(offsets) of what stands for a line, or
/// f(1, offsets, strides) of a run of one element.
template <std::size_t Arrays, bool Lines, class F>
struct each_element_kernel {
  strided_loop<static_cast<int>(Arrays)> loop;
  F f;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<1>(block, loop.n, false, [&]<int>(int64 i) {
      array_of<int64, static_cast<int>(Arrays)> found;
      loop.offsets(i, found);
      std::array<int64, Arrays> at{};
      for (std::size_t a = 0; a < Arrays; ++a) at[a] = found[a];
      if constexpr (Lines)
        f(at);
      else
        f(int64{1}, at, std::array<int64, Arrays>{});
    });
  }
};

}  // namespace weft::gpu
