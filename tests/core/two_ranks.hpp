// Two ranks in constexpr: small arrays, what each rank holds under a placement, and whether what the ranks hold is the
// value it is said to be. The rules' tables are proved against this, not against a second copy of themselves.
// Invariant: nothing here looks at a rule; only at the meaning of a placement.
#pragma once

#include <weft/core/placement.hpp>

namespace two_ranks {

using weft::holds;

/// Four labels, so that a batch, two kept and one contracted dimension fit. An absent one has extent 1.
enum label { g, m, n, k, labels };

struct small {
  int extent[labels] = {1, 1, 1, 1};
  long at[16] = {};

  constexpr long& operator()(int a, int b, int c, int d) { return at[((a * 2 + b) * 2 + c) * 2 + d]; }
  // An absent label is read at 0: that is broadcasting.
  constexpr long operator()(int a, int b, int c, int d) const {
    return at[(((a % extent[g]) * 2 + b % extent[m]) * 2 + c % extent[n]) * 2 + d % extent[k]];
  }
  template <class F>
  constexpr void each(F&& f) const {
    for (int a = 0; a < extent[g]; ++a)
      for (int b = 0; b < extent[m]; ++b)
        for (int c = 0; c < extent[n]; ++c)
          for (int d = 0; d < extent[k]; ++d) f(a, b, c, d);
  }
};

constexpr bool operator==(const small& x, const small& y) {
  for (int l = 0; l < labels; ++l)
    if (x.extent[l] != y.extent[l]) return false;
  bool same = true;
  x.each([&](int a, int b, int c, int d) { same = same && x(a, b, c, d) == y(a, b, c, d); });
  return same;
}

/// A global array over the labels whose bit is set, with numbers that satisfy no equation by accident.
constexpr small numbers(unsigned set, long seed) {
  small x;
  for (int l = 0; l < labels; ++l) x.extent[l] = set >> l & 1 ? 2 : 1;
  long v = seed;
  x.each([&](int a, int b, int c, int d) { x(a, b, c, d) = (v = (v * 1103 + 12345) % 7919); });
  return x;
}

constexpr small add(const small& x, const small& y, long factor = 1) {
  small out = x;
  out.each([&](int a, int b, int c, int d) { out(a, b, c, d) = x(a, b, c, d) + factor * y(a, b, c, d); });
  return out;
}
constexpr small slice(const small& x, int l, int rank) {
  small out = x;
  out.extent[l] = 1;
  out.each([&](int a, int b, int c, int d) {
    out(a, b, c, d) = x(a + (l == g) * rank, b + (l == m) * rank, c + (l == n) * rank, d + (l == k) * rank);
  });
  return out;
}
constexpr small zero_like(const small& x) { return add(x, x, -1); }

/// What the two ranks hold.
struct pair {
  small on[2];
};

struct placed {
  holds kind = holds::invariant;
  int dim = -1;  // sharded: the label
  friend constexpr bool operator==(const placed&, const placed&) = default;
};

/// Two ranks that hold `x` in the given way. A pending sum is any two addends: `x - noise` and `noise`.
constexpr pair distribute(const small& x, placed how) {
  if (how.kind == holds::shard) return {{slice(x, how.dim, 0), slice(x, how.dim, 1)}};
  if (how.kind != holds::partial) return {{x, x}};
  small noise = x;
  long v = 77;
  noise.each([&](int a, int b, int c, int d) { noise(a, b, c, d) = (v = (v * 911 + 5) % 6007); });
  return {{add(x, noise, -1), noise}};
}

/// Whether two ranks that hold p hold x in the given way.
constexpr bool reconstructs(const pair& p, const small& x, placed how) {
  if (how.kind == holds::shard) return p.on[0] == slice(x, how.dim, 0) && p.on[1] == slice(x, how.dim, 1);
  if (how.kind != holds::partial) return p.on[0] == x && p.on[1] == x;
  for (int l = 0; l < labels; ++l)
    if (p.on[0].extent[l] != x.extent[l] || p.on[1].extent[l] != x.extent[l]) return false;
  return add(p.on[0], p.on[1]) == x;
}

constexpr placed dual_of(placed p) { return {weft::dual(p.kind), p.dim}; }

}  // namespace two_ranks
