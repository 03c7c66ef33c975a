// The algebra that operators' placement rules are made of: what comes out, on one axis, when two values meet.
// Invariant: a rule never moves data; where data would have to move, it refuses and says which conversion is missing.
#pragma once

#include <weft/core/layout.hpp>

namespace weft {

/// Why a rule refuses, or `ok`.
enum class verdict : std::uint8_t {
  ok,
  contracted_one_side,  // the contracted dimension is sharded on one side only
  slice_meets_whole,    // a dimension both have is sharded on one side only
  two_dims,             // two different dimensions over one axis
  partial_meets_slice,  // an addend times a slice
  partial_twice,        // a product of two addends
  partial_plus_whole,   // an addend plus a whole value
};

/// What one operand brings on one axis.
struct operand {
  on_axis at = {};
  bool shared = false;      // sharded: the other operand has this dimension too
  bool contracted = false;  // sharded: the operator sums over this dimension
};

struct rule_result {
  on_axis at = {};
  verdict why = verdict::ok;
  friend constexpr bool operator==(const rule_result&, const rule_result&) = default;
};

namespace detail {
constexpr rule_result whole(holds a, holds b) {
  using enum holds;
  return {{a == replicate || b == replicate ? replicate : invariant}};
}
constexpr rule_result refuse(verdict why) { return {{}, why}; }

// Both sharded: fine when it is the same dimension of both, met slice by slice.
constexpr rule_result slices(const operand& a, const operand& b, bool contraction) {
  if (a.at.dim != b.at.dim) return refuse(verdict::two_dims);
  if (contraction && a.contracted) return {{holds::partial}};
  return {{holds::shard, a.at.dim}};
}
}  // namespace detail

/// Product (element-wise or contraction): bilinear, so one side may be partial where the other is whole.
constexpr rule_result product_rule(const operand& a, const operand& b) {
  using enum holds;
  if (a.at.kind == shard && b.at.kind == shard) return detail::slices(a, b, true);
  if (a.at.kind == shard || b.at.kind == shard) {
    const operand& slice = a.at.kind == shard ? a : b;
    const operand& other = a.at.kind == shard ? b : a;
    if (slice.contracted) return detail::refuse(verdict::contracted_one_side);
    if (other.at.kind == partial) return detail::refuse(verdict::partial_meets_slice);
    if (slice.shared) return detail::refuse(verdict::slice_meets_whole);
    return {slice.at};
  }
  if (a.at.kind == partial && b.at.kind == partial) return detail::refuse(verdict::partial_twice);
  if (a.at.kind == partial || b.at.kind == partial) return {{partial}};
  return detail::whole(a.at.kind, b.at.kind);
}

/// Sum or difference: linear in both together, so both sides are partial or neither is.
constexpr rule_result sum_rule(const operand& a, const operand& b) {
  using enum holds;
  if (a.at.kind == partial && b.at.kind == partial) return {{partial}};
  if (a.at.kind == partial || b.at.kind == partial) {
    const holds other = a.at.kind == partial ? b.at.kind : a.at.kind;
    return detail::refuse(other == shard ? verdict::partial_meets_slice : verdict::partial_plus_whole);
  }
  if (a.at.kind == shard && b.at.kind == shard) return detail::slices(a, b, false);
  if (a.at.kind == shard || b.at.kind == shard) {
    const operand& slice = a.at.kind == shard ? a : b;
    if (slice.shared) return detail::refuse(verdict::slice_meets_whole);
    return {slice.at};
  }
  return detail::whole(a.at.kind, b.at.kind);
}

/// Reduction over one operand's dimension by sum: a sharded reduced dimension leaves a sum pending.
constexpr on_axis reduce_rule(on_axis at, bool reduced) {
  return at.kind == holds::shard && reduced ? on_axis{holds::partial} : at;
}

/// Whether an operand placed so has to be promoted (`invariant -> replicate`) for an operator whose output is `out`:
/// as soon as ranks differ in what they do with it, each contributes one addend of its gradient.
constexpr bool promotes(on_axis in, on_axis out) { return in.kind == holds::invariant && out.kind != holds::invariant; }

}  // namespace weft
