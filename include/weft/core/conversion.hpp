// The conversion table: the only ways from one placement to another, and the movement each one costs.
// Invariant: the backward of a conversion from p to q is the conversion from dual(q) to dual(p).
#pragma once

#include <weft/core/placement.hpp>

namespace weft {

/// What a conversion does on each rank.
enum class movement : std::uint8_t {
  none,        // the bytes stay as they are
  keep_first,  // the first rank keeps its value, the others hold zeros
  slice,       // take this rank's slice, no communication
  pad,         // put this rank's slice into zeros of the whole size, no communication
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  shift,       // on to the next rank of the ring along the axis
  shift_back,  // to the rank before
  refused,
};

/// Movement of the conversion `from -> to` along one axis. `same_dim` matters only from shard to shard.
/// Refused pairs have no meaning (a whole value can't be had from a slice without communication in its name) or, for
/// `replicate -> invariant` and `shard -> partial`, occur only as the backward of another (see `backward_of`).
constexpr movement forward_of(holds from, holds to, bool same_dim = true) {
  using enum holds;
  switch (from) {
    case invariant:
      if (to == replicate || to == invariant) return movement::none;
      return to == shard ? movement::slice : movement::keep_first;
    case replicate:
      if (to == replicate) return movement::none;
      if (to == shard) return movement::slice;
      return to == partial ? movement::keep_first : movement::refused;
    case partial:
      if (to == partial) return movement::none;
      return to == shard ? movement::reduce_scatter : movement::all_reduce;
    case shard:
      if (to == shard) return same_dim ? movement::none : movement::all_to_all;
      return to == partial ? movement::refused : movement::all_gather;
  }
  return movement::refused;
}

/// Movement of the gradient of the conversion `from -> to`.
constexpr movement backward_of(holds from, holds to, bool same_dim = true) {
  using enum holds;
  if (forward_of(from, to, same_dim) == movement::refused) return movement::refused;
  if (from == replicate && to == shard) return movement::pad;
  if (from == invariant && to == partial) return movement::none;
  return forward_of(dual(to), dual(from), same_dim);
}

constexpr bool communicates(movement what) {
  switch (what) {
    case movement::none:
    case movement::keep_first:
    case movement::slice:
    case movement::pad:
    case movement::refused:
      return false;
    default:
      return true;
  }
}

constexpr std::string_view name_of(movement what) {
  switch (what) {
    case movement::none:
      return "nothing";
    case movement::keep_first:
      return "the first rank keeps it, the others hold zeros";
    case movement::slice:
      return "slice";
    case movement::pad:
      return "pad with zeros";
    case movement::all_reduce:
      return "all-reduce";
    case movement::all_gather:
      return "all-gather";
    case movement::reduce_scatter:
      return "reduce-scatter";
    case movement::all_to_all:
      return "all-to-all";
    case movement::shift:
      return "shift";
    case movement::shift_back:
      return "shift back";
    case movement::refused:
      return "refused";
  }
  return "?";
}

}  // namespace weft
