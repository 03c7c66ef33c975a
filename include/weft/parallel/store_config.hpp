// What a strategy's sharding policy and an optimizer ask of a parameter store, as values: so that the machinery below
// is compiled once, not once a policy.
#pragma once

#include <weft/policy/sharding.hpp>

namespace weft {

/// The members of a sharding_policy, of the same names; and how many numbers the optimizer keeps for an element beside
/// the weight, 0 to 2: of every parameter, or by_shape, where those that are matrices have another optimizer's.
struct store_config {
  axis_set axes;  // along which storage is sharded
  bool shards_parameters, shards_gradients, shards_optimizer;
  int prefetch;
  bool keeps_vectors = false;
  int moments = 2;
  bool by_shape = false;
  int matrix_moments = 0;
  bool whole_shares = false;  // of matrices: no rank's share of the optimizer's state cuts through a parameter
};

/// The config of P, for an optimizer O: adamw where none is named. Refuses a policy that shards parameters but not
/// their gradients, or gradients but not the optimizer's state.
template <sharding_policy P>
constexpr store_config config_of() {
  static_assert(detail::coherent<P>());
  store_config out{axes_along<typename P::axis>{}, bool(P::shards_parameters), bool(P::shards_gradients),
                   bool(P::shards_optimizer), int(P::prefetch)};
  if constexpr (requires { P::keeps_vectors; }) out.keeps_vectors = bool(P::keeps_vectors);
  return out;
}
template <sharding_policy P, class O>
constexpr store_config config_of() {
  store_config out = config_of<P>();
  if constexpr (requires { O::matrix_moments; }) {
    out.by_shape = true;
    out.matrix_moments = int(O::matrix_moments);
    if constexpr (requires { O::whole_shares; }) out.whole_shares = bool(O::whole_shares);
  }
  out.moments = int(O::moments);
  return out;
}

}  // namespace weft
