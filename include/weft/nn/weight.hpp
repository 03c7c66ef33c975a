// The types of a model's weights under a strategy. Invariant: to the model's reader a weight is invariant wherever it
// isn't sharded; operators see it `replicate` over the axes that split tokens, so its gradient is left pending
// there for the sharding policy to finish.
#pragma once

#include <weft/policy/strategy.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft {

namespace detail {
template <class Axes>
struct split_batch;
template <class... As>
struct split_batch<tag_list<As...>> {
  using whole = replicate<As...>;
  using slice = shard<batch, As...>;
};
}  // namespace detail

/// A weight that meets activations whose batch is split: `weight<S, dims<ffn, hidden>, shard<ffn, tp>>`.
template <class S, class Dims, class... Placements>
using weight =
    basic_tensor<typename S::precision::compute, Dims,
                 place<Placements..., typename detail::split_batch<batch_axes_of<typename S::sharding>>::whole>,
                 typename S::backend>;

/// What a model of one's own reads or is compared with, under whatever sharding policy: the batch is split over the
/// policy's batch_axes. `batch_tensor<S, float, dims<batch, hidden>>`, with placements over other axes behind.
template <class S, class T, class Dims, class... Placements>
using batch_tensor =
    basic_tensor<T, Dims,
                 place<typename detail::split_batch<batch_axes_of<typename S::sharding>>::slice, Placements...>,
                 typename S::backend>;

/// Token ids under a strategy, [batch/dp, seq].
template <class S>
using token_ids = batch_tensor<S, std::int32_t, dims<batch, seq>>;

namespace detail {
template <class S, class Dims, bool Sequence>
struct norm_weight {
  using type = weight<S, Dims>;
};
template <class S, class Dims>
struct norm_weight<S, Dims, true> {
  using type = weight<S, Dims, replicate<tp>>;
};
}  // namespace detail

/// A weight between the blocks' contractions: under sequence parallelism its gradient is pending over tp as well.
template <class S, class Dims>
using norm_weight = typename detail::norm_weight<S, Dims, S::sequence_parallel>::type;

}  // namespace weft
