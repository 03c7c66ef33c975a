// The sharding policy: where parameters, gradients and optimizer state are stored along the data-parallel axis.
// Invariant: a policy only decides; parallel/ moves the data.
#pragma once

#include <string_view>

#include <weft/core/axis_set.hpp>

namespace weft {

/// What a rank along `axis`, a mesh axis or along<...> several, keeps of a unit (a layer's parameters as one flat
/// buffer): its equal share, or all of it. prefetch: units gathered ahead of the one in use, so that its transfer
/// overlaps computing (only where parameters are sharded; prefetch + 1 gather buffers are reused).
template <class P>
concept sharding_policy = requires {
  {bool(P::shards_parameters)};
  {bool(P::shards_gradients)};
  {bool(P::shards_optimizer)};
  {int(P::prefetch)};
  {std::string_view(P::name)};
  typename P::axis;
}
&&axes_along<typename P::axis>::size > 0;

namespace detail {
template <class Axes, class In>
inline constexpr bool all_in = false;
template <class... As, class In>
inline constexpr bool all_in<tag_list<As...>, In> = (contains<In, As> && ...);
}  // namespace detail

/// The axes along which a policy splits the batch: `P::batch_axes`, or those of P::axis alone. Outermost first.
template <class P>
struct batch_axes {
  using type = axes_along<typename P::axis>;
  static constexpr bool ok = true;
};
template <class P>
requires requires { typename P::batch_axes; }
struct batch_axes<P> {
  using type = typename P::batch_axes;
  static constexpr bool ok = true;
  static_assert(detail::all_in<axes_along<typename P::axis>, type>,
                "weft: a sharding policy stores along axes that split its batch");
};
template <class P>
using batch_axes_of = typename batch_axes<P>::type;

namespace detail {
/// Refuses a policy that shards parameters but not their gradients, or gradients but not the optimizer's state, or that
/// gathers fewer units ahead than none.
template <sharding_policy P>
constexpr bool coherent() {
  static_assert(!P::shards_parameters || P::shards_gradients,
                "weft: a policy that shards parameters also shards their gradients");
  static_assert(!P::shards_gradients || P::shards_optimizer,
                "weft: a policy that shards gradients also shards the optimizer's state");
  static_assert(int(P::prefetch) >= 0,
                "weft: a sharding policy's prefetch is how many units are gathered ahead, at least 0");
  return true;
}
}  // namespace detail

/// Distributed data parallel: every rank keeps everything, gradients are all-reduced as each unit's backward ends.
struct replicated {
  static constexpr std::string_view name = "replicated";
  static constexpr bool shards_parameters = false, shards_gradients = false, shards_optimizer = false;
  static constexpr int prefetch = 0;
  using axis = dp;
};

/// ZeRO stage 1: optimizer state sharded. Gradients are reduce-scattered as each unit's last backward ends; the new
/// weights are all-gathered, and each unit's next forward awaits its own.
struct zero1 {
  static constexpr std::string_view name = "zero1";
  static constexpr bool shards_parameters = false, shards_gradients = false, shards_optimizer = true;
  static constexpr int prefetch = 0;
  using axis = dp;
};

/// ZeRO stage 2: gradients sharded too: every micro-batch's are reduce-scattered at once, from two buffers that take
/// turns.
struct zero2 {
  static constexpr std::string_view name = "zero2";
  static constexpr bool shards_parameters = false, shards_gradients = true, shards_optimizer = true;
  static constexpr int prefetch = 0;
  using axis = dp;
};

/// ZeRO stage 3 or FSDP (Rajbhandari et al. 2020; Zhao et al. 2023): every rank keeps its share of parameters,
/// gradients and optimizer state; a unit is gathered before it is used, in two buffers that take turns, and its
/// gradients are reduce-scattered as soon as its backward ends.
struct zero3 {
  static constexpr std::string_view name = "zero3";
  static constexpr bool shards_parameters = true, shards_gradients = true, shards_optimizer = true;
  static constexpr int prefetch = 1;
  using axis = dp;
};

/// The axis within a group of ranks that share storage under `hybrid`.
struct fsdp : axis_tag {
  static constexpr std::string_view name = "fsdp";
};

/// HSDP: zero3 along `fsdp` (ranks that are near each other), replicated along `dp`. The batch is split over both,
/// so a gradient is reduce-scattered along fsdp, and its shares are all-reduced along dp once a step, a unit's while
/// others are in their backward.
struct hybrid {
  static constexpr std::string_view name = "hybrid";
  static constexpr bool shards_parameters = true, shards_gradients = true, shards_optimizer = true;
  static constexpr int prefetch = 1;
  using axis = fsdp;
  using batch_axes = tag_list<dp, fsdp>;
};

}  // namespace weft
