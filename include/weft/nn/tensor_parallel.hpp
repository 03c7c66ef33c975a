// Where a block meets tensor parallelism (Shoeybi et al. 2019), with the sequence sharded between blocks or not
// (Korthikanti et al. 2022). Invariant: what enters is whole on tp, what leaves is as it was.
#pragma once

#include <weft/op/convert.hpp>
#include <weft/policy/strategy.hpp>

namespace weft {

/// Into a block. Sequence-parallel: all-gather of `seq` over tp. Else nothing: x is invariant and promoted on its first
/// use.
template <class S, any_tensor X>
auto enter_block(const X& x, [[maybe_unused]] call_site at = call_site::here()) {
  if constexpr (S::sequence_parallel)
    return all_gather<tp>(x, at);
  else
    return x;
}

/// Out of a block, finishing its sum over tp. Sequence-parallel: reduce-scatter along `seq`. Else: all-reduce.
template <class S, any_tensor X>
auto leave_block(const X& x, call_site at = call_site::here()) {
  if constexpr (S::sequence_parallel)
    return reduce_scatter<seq, tp>(x, at);
  else
    return all_reduce<tp>(x, at);
}

}  // namespace weft
