// The four placements: what the ranks along one mesh axis hold of a tensor, and what its gradient is there.
#pragma once

#include <weft/core/tags.hpp>

namespace weft {

// Which tags they take is asked where a layout or a conversion is made of them (axes_in): there a sentence can be said.

/// The ranks along each axis hold their slices of dimension D; over several axes the first is the outermost.
template <class D, class... Axes>
struct shard {};
/// Every rank along the axis holds the same value, and its gradient is the same on each. The default: never listed in a
/// layout.
template <class... Axes>
struct invariant {};
/// Every rank along the axis holds the same value; each contributes one addend of its gradient.
template <class... Axes>
struct replicate {};
/// Every rank along the axis holds one addend of the value: a sum is pending.
template <class... Axes>
struct partial {};

/// What the ranks along one axis hold.
enum class holds : std::uint8_t { invariant, replicate, partial, shard };

/// The placement of the gradient of a value placed so: `replicate` and `partial` are each other's duals.
constexpr holds dual(holds kind) {
  switch (kind) {
    case holds::replicate:
      return holds::partial;
    case holds::partial:
      return holds::replicate;
    default:
      return kind;
  }
}

constexpr std::string_view name_of(holds kind) {
  switch (kind) {
    case holds::invariant:
      return "invariant";
    case holds::replicate:
      return "replicate";
    case holds::partial:
      return "partial";
    case holds::shard:
      return "shard";
  }
  return "?";
}

}  // namespace weft
