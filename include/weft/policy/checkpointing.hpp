// The activation checkpointing policy: which of a layer's values are kept for the backward, and which are computed
// again. Invariant: a policy changes memory and time, never a number; but by a rounding where a backend takes gelu with
// a product (contract_gelu).
#pragma once

#include <weft/core/requirements.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <string_view>

namespace weft {

/// What it takes to run an operator again, and what it takes to keep its output instead. Sizes are this rank's.
/// Operations are those of the formula, a function like exp or a random word counting as 8; every operator's header
/// says its own.
struct op_cost {
  std::string_view name;        // of the operator: "contract", "attention", "all-reduce", ...
  double flops = 0;             // floating-point operations
  double received = 0;          // bytes that other ranks send to this one
  std::int64_t kept_bytes = 0;  // of its output
};

/// recomputes: a layer keeps its input and what `keeps` says, and its forward runs again at its backward, without the
/// operators whose output was kept or isn't looked at any more. Else a layer keeps what its operators save.
/// keeps(cost): asked of each operator in such a layer's forward; has to say the same on every rank of a group. Of the
/// outputs it wants, those that nobody would look at again aren't kept.
template <class P>
concept checkpointing_policy = requires(const op_cost& cost) {
  {bool(P::recomputes)};
  { P::keeps(cost) } -> std::convertible_to<bool>;
  {std::string_view(P::name)};
};

/// Keeps everything; nothing is computed again.
struct checkpoint_none {
  static constexpr std::string_view name = "none";
  static constexpr bool recomputes = false;
  static constexpr bool keeps(const op_cost&) { return true; }
};

/// Full recomputation (Chen et al. 2016), a layer at a time.
struct checkpoint_full {
  static constexpr std::string_view name = "full";
  static constexpr bool recomputes = true;
  static constexpr bool keeps(const op_cost&) { return false; }
};

/// The least that running an operator again has to cost for its output to be kept: operations for each byte kept, or
/// bytes received from other ranks for each 100 bytes kept. By default contractions of width 64 and above and attention
/// are kept (a contraction over k costs k/2 operations a byte in fp32), sums over ranks too; norms, rotary positions,
/// activations, dropout and all-gathers (below 100) run again.
struct selective_limits {
  int flops_per_byte = 32;
  int received_percent = 100;

  friend constexpr bool operator==(const selective_limits&, const selective_limits&) = default;
};

/// Selective recomputation, as Korthikanti et al. 2022 have it, by each operator's cost to recompute per byte.
template <selective_limits Limits>
struct checkpoint_selective_by {
  static constexpr std::string_view name = "selective";
  static constexpr bool recomputes = true;
  static constexpr selective_limits limits = Limits;
  static constexpr bool keeps(const op_cost& cost) {
    const auto bytes = static_cast<double>(cost.kept_bytes);
    return cost.flops >= bytes * limits.flops_per_byte || cost.received * 100 >= bytes * limits.received_percent;
  }
};
using checkpoint_selective = checkpoint_selective_by<selective_limits{}>;

namespace detail {
template <class P>
inline constexpr bool offloads_inputs = requires {
  requires bool(P::offloads_inputs);
};
template <class P>
inline constexpr auto offloaded_name = [] {
  constexpr std::string_view own = P::name, more = "_offloaded";
  std::array<char, own.size() + more.size()> text{};
  std::copy(more.begin(), more.end(), std::copy(own.begin(), own.end(), text.begin()));
  return text;
}();
}  // namespace detail

/// P, whose layers' inputs lie in page-locked memory of the host's between forward and backward, where kernels run on a
/// device: of a stage's layers, two have theirs on the device. Elsewhere, as under cpu_backend, it is P.
template <checkpointing_policy P = checkpoint_full>
struct offloaded : P {
  static_assert(P::recomputes,
                "weft: offloaded<P> moves what a layer keeps to run again, its input, and this policy runs nothing "
                "again: write offloaded<checkpoint_full> or offloaded<checkpoint_selective>");
  static constexpr bool offloads_inputs = true;
  static constexpr std::string_view name{detail::offloaded_name<P>.data(), detail::offloaded_name<P>.size()};
};

}  // namespace weft
