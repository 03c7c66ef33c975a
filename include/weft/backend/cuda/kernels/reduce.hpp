// Sums, and other joins, over the threads of a warp and of a block. Invariant: every thread gets the same bits, for
// every order in which threads run.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/backend/cuda/kernel.hpp>

namespace weft::gpu {

/// How two parts of a reduction are joined, and what it begins with.
template <reduce Kind, class A>
WEFT_ON_DEVICE A join(A a, A b) {
  if constexpr (Kind == reduce::sum) return a + b;
  if constexpr (Kind == reduce::max) return b > a ? b : a;
  if constexpr (Kind == reduce::min) return b < a ? b : a;
}
template <reduce Kind, class A>
WEFT_ON_DEVICE A start_of() {
  if constexpr (Kind == reduce::sum || (Kind == reduce::max && std::is_unsigned_v<A>))
    return 0;
  else
    return static_cast<A>(Kind == reduce::max ? -__builtin_inff() : __builtin_inff());
}

/// Over this warp's lanes.
template <reduce Kind, class Block, class A>
WEFT_ON_DEVICE A warp_reduce(Block& block, A value) {
  for (int mask = warp_size / 2; mask > 0; mask /= 2) value = join<Kind>(value, block.shuffle_xor(value, mask));
  return value;
}
template <class Block, class A>
WEFT_ON_DEVICE A warp_sum(Block& block, A value) {
  return warp_reduce<reduce::sum>(block, value);
}

/// Over the block's threads, 32 warps at most. `scratch`: shared memory for one A a warp, free again on return. Each
/// warp reads what all have in one request, and its lanes join it: a word a lane, which no other lane reads.
template <reduce Kind, class Block, class A>
WEFT_ON_DEVICE A block_reduce(Block& block, A value, A* scratch) {
  value = warp_reduce<Kind>(block, value);
  if (block.lane() == 0) scratch[block.warp()] = value;
  block.sync();
  A of_warp = start_of<Kind, A>();
  if (block.lane() < block.warps()) of_warp = join<Kind>(of_warp, scratch[block.lane()]);
  block.sync();  // nobody writes the scratch again before all have read it
  return warp_reduce<Kind>(block, of_warp);
}
template <class Block, class A>
WEFT_ON_DEVICE A block_sum(Block& block, A value, A* scratch) {
  return block_reduce<reduce::sum>(block, value, scratch);
}

}  // namespace weft::gpu
