// What a strategy's sharding policy says, as values: so that the machinery below is compiled once, not once a policy.
#pragma once

#include <weft/policy/sharding.hpp>

namespace weft {

/// The members of a sharding_policy, of the same names; and how many numbers the optimizer keeps for an element beside
/// the weight, 0 to 2.
struct store_config {
  axis_id axis;
  bool shards_parameters, shards_gradients, shards_optimizer;
  int prefetch;
  int moments = 2;
};

/// The config of P. Refuses one that shards parameters but not their gradients, or gradients but not the optimizer's
/// state.
template <sharding_policy P>
constexpr store_config config_of() {
  static_assert(!P::shards_parameters || P::shards_gradients,
                "weft: a policy that shards parameters also shards their gradients");
  static_assert(!P::shards_gradients || P::shards_optimizer,
                "weft: a policy that shards gradients also shards the optimizer's state");
  return {id_of<typename P::axis>, bool(P::shards_parameters), bool(P::shards_gradients), bool(P::shards_optimizer),
          int(P::prefetch)};
}

}  // namespace weft
