// The activation checkpointing policy: whether a layer's saved values are kept for the backward, or computed again.
// Invariant: a policy changes memory and time, never a number.
#pragma once

#include <string_view>

namespace weft {

/// recomputes: a layer keeps only its input, and its forward runs again at its backward.
template <class P>
concept checkpointing_policy = requires {
  { bool(P::recomputes) };
  { std::string_view(P::name) };
};

struct checkpoint_none {
  static constexpr std::string_view name = "none";
  static constexpr bool recomputes = false;
};

/// Full recomputation (Chen et al. 2016), a layer at a time.
struct checkpoint_full {
  static constexpr std::string_view name = "full";
  static constexpr bool recomputes = true;
};

}  // namespace weft
