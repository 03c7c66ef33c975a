// Both tables of the design, row by row, over every pair of placements; and a proof of each row by two ranks in
// constexpr: the movement really leads from one placement to the other, and the transposed one carries the gradient
// back.
#include <doctest/doctest.h>

#include <weft/core/conversion.hpp>

#include "two_ranks.hpp"

namespace {

using weft::backward_of;
using weft::dual;
using weft::forward_of;
using weft::movement;
using enum weft::holds;
using weft::holds;

// The first table: a placement and its gradient's.
static_assert(dual(shard) == shard && dual(invariant) == invariant && dual(replicate) == partial &&
              dual(partial) == replicate);
static_assert(
    [] {
      for (holds h : {invariant, replicate, partial, shard})
        if (dual(dual(h)) != h) return false;
      return true;
    }(),
    "dual is an involution");

// The second table: all sixteen pairs, shard -> shard twice.
struct row {
  holds from, to;
  bool same_dim;
  movement forward, backward;
};
constexpr row table[] = {
    {invariant, invariant, true, movement::none, movement::none},
    {invariant, replicate, true, movement::none, movement::all_reduce},
    {invariant, partial, true, movement::keep_first, movement::none},
    {invariant, shard, true, movement::slice, movement::all_gather},
    {replicate, invariant, true, movement::refused, movement::refused},
    {replicate, replicate, true, movement::none, movement::none},
    {replicate, partial, true, movement::keep_first, movement::keep_first},
    {replicate, shard, true, movement::slice, movement::pad},
    {partial, invariant, true, movement::all_reduce, movement::none},
    {partial, replicate, true, movement::all_reduce, movement::all_reduce},
    {partial, partial, true, movement::none, movement::none},
    {partial, shard, true, movement::reduce_scatter, movement::all_gather},
    {shard, invariant, true, movement::all_gather, movement::slice},
    {shard, replicate, true, movement::all_gather, movement::reduce_scatter},
    {shard, partial, true, movement::refused, movement::refused},
    {shard, shard, true, movement::none, movement::none},
    {shard, shard, false, movement::all_to_all, movement::all_to_all},
};
static_assert(sizeof(table) / sizeof(row) == 17);
static_assert([] {
  for (const row& r : table)
    if (forward_of(r.from, r.to, r.same_dim) != r.forward || backward_of(r.from, r.to, r.same_dim) != r.backward)
      return false;
  return true;
}());

// The backward of a conversion is the conversion of the duals, the other way round; but for two, whose transposes are
// no conversion that a program may ask for.
static_assert([] {
  int exceptions = 0;
  for (const row& r : table) {
    if (r.forward == movement::refused) continue;
    if (backward_of(r.from, r.to, r.same_dim) == forward_of(dual(r.to), dual(r.from), r.same_dim)) continue;
    const bool pads = r.from == replicate && r.to == shard, starts = r.from == invariant && r.to == partial;
    if (!pads && !starts) return false;
    ++exceptions;
  }
  return exceptions == 2;
}());

static_assert([] {
  for (movement what : {movement::none, movement::keep_first, movement::slice, movement::pad, movement::refused})
    if (communicates(what)) return false;
  for (movement what : {movement::all_reduce, movement::all_gather, movement::reduce_scatter, movement::all_to_all,
                        movement::shift, movement::shift_back})
    if (!communicates(what)) return false;
  return true;
}());

// What a movement does to two ranks that hold p. `from` and `to` are the sharded labels.
using namespace two_ranks;
constexpr small join(const pair& p, int l) {
  small out = p.on[0];
  out.extent[l] = 2;
  out.each([&](int a, int b, int c, int d) {
    const int at[labels] = {a, b, c, d};
    out(a, b, c, d) = p.on[at[l]](l == g ? 0 : a, l == m ? 0 : b, l == n ? 0 : c, l == k ? 0 : d);
  });
  return out;
}
constexpr small padded(const small& x, int l, int rank) {
  const small zero = zero_like(x);
  return join(rank == 0 ? pair{{x, zero}} : pair{{zero, x}}, l);
}
constexpr pair moved(movement what, const pair& p, int from, int to) {
  const auto& [x, y] = p.on;
  switch (what) {
    case movement::none:
      return p;
    case movement::keep_first:
      return {{x, zero_like(x)}};
    case movement::slice:
      return {{slice(x, to, 0), slice(y, to, 1)}};
    case movement::pad:
      return {{padded(x, from, 0), padded(y, from, 1)}};
    case movement::all_reduce:
      return {{add(x, y), add(x, y)}};
    case movement::all_gather:
      return {{join(p, from), join(p, from)}};
    case movement::reduce_scatter:
      return {{slice(add(x, y), to, 0), slice(add(x, y), to, 1)}};
    case movement::all_to_all:
      return {{slice(join(p, from), to, 0), slice(join(p, from), to, 1)}};
    default:
      return {};
  }
}

constexpr bool proved(const row& r) {
  const unsigned both = 1u << m | 1u << n;
  const placed from{r.from, r.from == shard ? m : -1}, to{r.to, r.to == shard ? (r.same_dim ? m : n) : -1};
  const small x = numbers(both, 5), dy = numbers(both, 12);
  if (r.forward == movement::refused) return true;
  return reconstructs(moved(r.forward, distribute(x, from), from.dim, to.dim), x, to) &&
         reconstructs(moved(r.backward, distribute(dy, dual_of(to)), to.dim, from.dim), dy, dual_of(from));
}
static_assert([] {
  for (const row& r : table)
    if (!proved(r)) return false;
  return true;
}());

TEST_CASE("each row of the conversion table does what it says on two ranks") {  // as above, naming the row
  for (const row& r : table) {
    CAPTURE(name_of(r.from).data());
    CAPTURE(name_of(r.to).data());
    CHECK(proved(r));
    CHECK(forward_of(r.from, r.to, r.same_dim) == r.forward);
    CHECK(backward_of(r.from, r.to, r.same_dim) == r.backward);
  }
}

}  // namespace
