// Sums over the threads of a block. Invariant: every thread gets the same bits, for every order in which threads run.
#pragma once

#include <weft/backend/cuda/kernel.hpp>

namespace weft::cuda {

/// Sum over this warp's lanes.
template <class Block, class A>
WEFT_ON_DEVICE A warp_sum(Block& block, A value) {
  for (int mask = warp_size / 2; mask > 0; mask /= 2) value += block.shuffle_xor(value, mask);
  return value;
}

/// Sum over the block's threads. `scratch`: shared memory for one A a warp, free again on return.
template <class Block, class A>
WEFT_ON_DEVICE A block_sum(Block& block, A value, A* scratch) {
  value = warp_sum(block, value);
  if (block.lane() == 0) scratch[block.warp()] = value;
  block.sync();
  A total = 0;
  for (int w = 0; w < block.warps(); ++w) total += scratch[w];
  block.sync();  // nobody writes the scratch again before all have read it
  return total;
}

}  // namespace weft::cuda
