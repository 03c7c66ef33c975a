// What an optimizer is to a parameter store: a rule from a gradient to a weight, element by element, so that it is the
// same however a sharding policy shards what it works on. Invariant: every element is updated once, by the ranks that
// store it, from a gradient with nothing pending.
#pragma once

#include <weft/core/requirements.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>

namespace weft {

/// The numbers of one update, the same on every rank.
struct optimizer_step {
  std::int64_t number;  // of updates, this one included: from 1
  double lr;
  double grad_scale;  // what gradients are multiplied by first: clipping, the mean over tokens, loss scaling
};

/// What this rank updates of one parameter: all of it, or its share. `moments` are the optimizer's own, zero at first;
/// those that it didn't ask for are empty. Where weight, gradient and moments are zero, as in padding, an update leaves
/// them zero.
template <class Master, class Gradient>
struct parameter_share {
  std::string_view name;
  bool decays;  // a matrix, to which weight decay applies
  std::span<Master> weight;
  std::span<const Gradient> gradient;
  std::array<std::span<Master>, 2> moments;
};

/// An optimizer of one's own: its learning rate, how many moments it keeps for each element (0 to 2), and
/// `update(share, step)`, which changes share.weight and share.moments in place. On the host's backend.
template <class O>
concept optimizer_policy = requires(const O& o, parameter_share<float, float>& share, const optimizer_step& step) {
  { O::moments } -> std::convertible_to<int>;
  { o.lr } -> std::convertible_to<double>;
  o.update(share, step);
};

}  // namespace weft
