// The placement rules of sums, products, contractions and reductions, over every pair of placements, against what they
// mean: two ranks compute in constexpr, forward and backward, and the rule has to name the placement that comes out.
#include <string_view>

#include <doctest/doctest.h>

#include <weft/core/rule.hpp>

#include "two_ranks.hpp"

namespace {

using namespace two_ranks;
using weft::on_axis;
using weft::operand;
using weft::product_rule;
using weft::rule_result;
using weft::sum_rule;
using weft::verdict;

constexpr weft::dim_id label_names[labels] = {{"g", "g"}, {"m", "m"}, {"n", "n"}, {"k", "k"}};

/// An operator of two arrays over fixed labels, as a plain loop.
struct operation {
  bool product;        // or a sum
  unsigned a, b, out;  // which labels each has
};
constexpr unsigned bit(int l) { return 1u << l; }
constexpr operation contraction{true, bit(g) | bit(m) | bit(k), bit(g) | bit(n) | bit(k), bit(g) | bit(m) | bit(n)};
constexpr operation times{true, bit(g) | bit(m), bit(g) | bit(n), bit(g) | bit(m) | bit(n)};
constexpr operation plus{false, bit(g) | bit(m), bit(g) | bit(n), bit(g) | bit(m) | bit(n)};

/// Whether a rank can compute at all: labels that both have are of one size.
constexpr bool computable(const operation& op, const small& a, const small& b) {
  for (int l = 0; l < labels; ++l)
    if ((op.a & op.b & bit(l)) && a.extent[l] != b.extent[l]) return false;
  return true;
}
constexpr small forward(const operation& op, const small& a, const small& b) {
  small out;
  int sum = 1;
  for (int l = 0; l < labels; ++l) {
    const int size = a.extent[l] > b.extent[l] ? a.extent[l] : b.extent[l];
    if (op.out & bit(l))
      out.extent[l] = size;
    else
      sum = size;  // only k is ever left out
  }
  out.each([&](int i, int j, int l, int) {
    long total = 0;
    for (int s = 0; s < sum; ++s) total += op.product ? a(i, j, l, s) * b(i, j, l, s) : a(i, j, l, s) + b(i, j, l, s);
    out(i, j, l, 0) = total;
  });
  return out;
}
/// The gradient of `to` (an operand), the other operand being `other`.
constexpr small backward(const operation& op, const small& to, const small& other, const small& dout) {
  small d = zero_like(to);
  const int sum = to.extent[k] > other.extent[k] ? to.extent[k] : other.extent[k];
  dout.each([&](int i, int j, int l, int) {
    for (int s = 0; s < sum; ++s)
      d(i % to.extent[g], j % to.extent[m], l % to.extent[n], s % to.extent[k]) +=
          dout(i, j, l, 0) * (op.product ? other(i, j, l, s) : 1);
  });
  return d;
}

/// Whether, with operands placed so, the output placed so is right: its value, and every gradient that follows from
/// it.
constexpr bool right(const operation& op, placed pa, placed pb, placed out) {
  const small a = numbers(op.a, 17), b = numbers(op.b, 4711), whole = forward(op, a, b), dwhole = numbers(op.out, 99);
  const pair as = distribute(a, pa), bs = distribute(b, pb);
  if (!computable(op, as.on[0], bs.on[0])) return false;
  const pair outs{{forward(op, as.on[0], bs.on[0]), forward(op, as.on[1], bs.on[1])}};
  if (!reconstructs(outs, whole, out)) return false;
  const pair douts = distribute(dwhole, dual_of(out));
  const auto gradient_right = [&](placed p, const small& x, const pair& xs, const small& y, const pair& ys) {
    if (p.kind == holds::invariant && out.kind != holds::invariant)
      p.kind = holds::replicate;  // the implicit promotion
    const pair d{{backward(op, xs.on[0], ys.on[0], douts.on[0]), backward(op, xs.on[1], ys.on[1], douts.on[1])}};
    return reconstructs(d, backward(op, x, y, dwhole), dual_of(p));
  };
  return gradient_right(pa, a, as, b, bs) && gradient_right(pb, b, bs, a, as);
}

struct choices {
  placed at[6];
  int count = 0;
};
constexpr choices choices_of(unsigned set) {
  choices out;
  for (holds kind : {holds::invariant, holds::replicate, holds::partial}) out.at[out.count++] = {kind, -1};
  for (int l = 0; l < labels; ++l)
    if (set & bit(l)) out.at[out.count++] = {holds::shard, l};
  return out;
}

constexpr on_axis as_state(placed p) {
  return p.kind == holds::shard ? on_axis{p.kind, label_names[p.dim]} : on_axis{p.kind};
}

constexpr rule_result asked(const operation& op, placed pa, placed pb) {
  const auto make = [&](placed p, unsigned other) {
    const bool cut = p.kind == holds::shard;
    return operand{as_state(p), cut && (other & bit(p.dim)), cut && !(op.out & bit(p.dim))};
  };
  const operand a = make(pa, op.b), b = make(pb, op.a);
  return op.product ? product_rule(a, b) : sum_rule(a, b);
}

/// The rule names the first placement that is right, `invariant` first, and refuses where none is.
constexpr bool proved(const operation& op, placed pa, placed pb) {
  const rule_result answer = asked(op, pa, pb);
  const choices outs = choices_of(op.out);
  for (int i = 0; i < outs.count; ++i)
    if (right(op, pa, pb, outs.at[i])) return answer.why == verdict::ok && answer.at == as_state(outs.at[i]);
  return answer.why != verdict::ok;
}

template <const operation& Op, int A>
constexpr bool proved_row() {  // one row an evaluation, so that no compiler's limit on constexpr steps is met
  const choices bs = choices_of(Op.b);
  for (int i = 0; i < bs.count; ++i)
    if (!proved(Op, choices_of(Op.a).at[A], bs.at[i])) return false;
  return true;
}

static_assert(proved_row<contraction, 0>() && proved_row<contraction, 1>() && proved_row<contraction, 2>());
static_assert(proved_row<contraction, 3>() && proved_row<contraction, 4>() && proved_row<contraction, 5>());
static_assert(proved_row<times, 0>() && proved_row<times, 1>() && proved_row<times, 2>() && proved_row<times, 3>() &&
              proved_row<times, 4>());
static_assert(proved_row<plus, 0>() && proved_row<plus, 1>() && proved_row<plus, 2>() && proved_row<plus, 3>() &&
              proved_row<plus, 4>());

TEST_CASE(
    "every pair of placements means what the rule says") {  // as the assertions above, but naming the pair that fails
  for (const operation* op : {&contraction, &times, &plus}) {
    const choices as = choices_of(op->a), bs = choices_of(op->b);
    int refused = 0, accepted = 0;
    for (int i = 0; i < as.count; ++i)
      for (int j = 0; j < bs.count; ++j) {
        CAPTURE(int(op->product));
        CAPTURE(name_of(as.at[i].kind).data());
        CAPTURE(as.at[i].dim);
        CAPTURE(name_of(bs.at[j].kind).data());
        CAPTURE(bs.at[j].dim);
        CHECK(proved(*op, as.at[i], bs.at[j]));
        ++(asked(*op, as.at[i], bs.at[j]).why == verdict::ok ? accepted : refused);
      }
    CHECK(accepted > 0);
    CHECK(refused > 0);
  }
}

// The reason given for each refusal.
constexpr on_axis inv{}, rep{holds::replicate}, part{holds::partial}, at_g{holds::shard, label_names[0]},
    at_m{holds::shard, label_names[1]}, at_n{holds::shard, label_names[2]}, at_k{holds::shard, label_names[3]};
constexpr operand cut_g{at_g, true, false}, cut_m{at_m, false, false}, cut_n{at_n, false, false},
    cut_k{at_k, true, true};

static_assert(product_rule(cut_k, {inv}).why == verdict::contracted_one_side);
static_assert(product_rule({rep}, cut_k).why == verdict::contracted_one_side);
static_assert(product_rule(cut_g, {inv}).why == verdict::slice_meets_whole);
static_assert(product_rule(cut_m, cut_n).why == verdict::two_dims);
static_assert(product_rule(cut_m, {part}).why == verdict::partial_meets_slice);
static_assert(product_rule({part}, {part}).why == verdict::partial_twice);
static_assert(sum_rule({part}, {inv}).why == verdict::partial_plus_whole);
static_assert(sum_rule({rep}, {part}).why == verdict::partial_plus_whole);
static_assert(sum_rule({part}, cut_m).why == verdict::partial_meets_slice);
static_assert(sum_rule(cut_g, {rep}).why == verdict::slice_meets_whole);
static_assert(sum_rule(cut_m, cut_n).why == verdict::two_dims);

/// Both rules are symmetric.
constexpr bool symmetric() {
  const operand all[] = {{inv}, {rep}, {part}, cut_g, cut_m, cut_n, cut_k};
  for (const operand& a : all)
    for (const operand& b : all)
      if (product_rule(a, b) != product_rule(b, a) || sum_rule(a, b) != sum_rule(b, a)) return false;
  return true;
}
static_assert(symmetric());

// Reduction: x [m, k] summed over k, by the same meaning.
constexpr small sum_k(const small& x) {
  small out = x;
  out.extent[k] = 1;
  out.each([&](int a, int b, int c, int) {
    long total = 0;
    for (int s = 0; s < x.extent[k]; ++s) total += x(a, b, c, s);
    out(a, b, c, 0) = total;
  });
  return out;
}
constexpr small spread_k(const small& like, const small& dout) { return add(zero_like(like), dout); }

constexpr bool reduction_proved() {
  const unsigned in = bit(m) | bit(k), kept = bit(m);
  const small x = numbers(in, 31), whole = sum_k(x), dwhole = numbers(kept, 8);
  const choices ins = choices_of(in), outs = choices_of(kept);
  for (int i = 0; i < ins.count; ++i) {
    const placed p = ins.at[i];
    const pair xs = distribute(x, p), ys{{sum_k(xs.on[0]), sum_k(xs.on[1])}};
    const on_axis answer = weft::reduce_rule(as_state(p), p.kind == holds::shard && p.dim == k);
    for (int j = 0; j < outs.count; ++j) {
      const placed out = outs.at[j];
      const pair dys = distribute(dwhole, dual_of(out));
      const pair dxs{{spread_k(xs.on[0], dys.on[0]), spread_k(xs.on[1], dys.on[1])}};
      const bool is_right = reconstructs(ys, whole, out) && reconstructs(dxs, spread_k(x, dwhole), dual_of(p));
      if (is_right != (answer == as_state(out))) return false;  // exactly one placement is right
    }
  }
  return true;
}
static_assert(reduction_proved());

// An input is promoted exactly where it is invariant and the output isn't.
static_assert(!promotes(inv, inv) && promotes(inv, rep) && promotes(inv, part) && promotes(inv, at_m));
static_assert(!promotes(rep, part) && !promotes(part, part) && !promotes(at_m, at_m) && !promotes(at_k, part));

}  // namespace
