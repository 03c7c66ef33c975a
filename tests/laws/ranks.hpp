// What every law here stands on: ranks of a dp x tp mesh, and a differentiable problem with its types erased.
// Invariant: all numbers are functions of global indices, so one rank and eight work on the same problem.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <weft/backend/cpu.hpp>
#include <weft/op/placed.hpp>
#include <weft/policy/mesh.hpp>

namespace laws {

/// The meshes that laws are tried on: 1, 2, 4, 6 and 8 ranks.
inline constexpr weft::degrees meshes[] = {
    {.dp = 1, .tp = 1}, {.dp = 2, .tp = 1}, {.dp = 1, .tp = 2}, {.dp = 2, .tp = 2}, {.dp = 1, .tp = 4},
    {.dp = 3, .tp = 2}, {.dp = 2, .tp = 3}, {.dp = 4, .tp = 2}, {.dp = 2, .tp = 4}, {.dp = 1, .tp = 8}};

/// Runs `body` on every rank of a dp x tp mesh of threads, recording.
void on_ranks(const weft::degrees& mesh, const std::function<void(weft::context&)>& body);

/// Sum of a number over all ranks of the mesh.
double world_sum(weft::context& ctx, double x);
/// Throws unless all ranks along the axis hold the same bytes' values in `data`.
void require_equal_along(weft::context& ctx, weft::axis_id axis, const weft::array& data, const char* what);

/// x's share with zeros in the padding.
template <weft::any_tensor X>
weft::array without_padding(const X& x) {
  return weft::detail::with_padding<typename X::backend>(*x.ctx, x.held(), weft::detail::valid_part(x));
}
/// NaN in x's padding, which nothing may read.
template <weft::any_tensor X>
void poison_padding(const X& x) {
  if constexpr (weft::floating<typename X::element_type>) {
    const weft::array poisoned = weft::detail::with_padding<typename X::backend>(
        *x.ctx, x.held(), weft::detail::valid_part(x), __builtin_nan(""));
    X::backend::copy_bytes(x.ctx->template queue<typename X::backend>(), poisoned.data, x.held().data,
                           x.held().bytes());
  }
}

/// Global extents by the dimension's name.
struct extents {
  std::vector<std::pair<std::string, std::int64_t>> known;
  std::int64_t of(std::string_view name) const {
    for (const auto& [n, size] : known)
      if (n == name) return size;
    weft::fail("no extent was drawn for ", std::string(name));
  }
};

struct options {
  /// Extents that are not drawn from 1 ... 4 (times the ranks that share the dimension).
  std::vector<std::pair<std::string, std::int64_t>> base = {};
  /// Dimensions that the operator itself shards, over whichever axes.
  std::vector<std::string> divided = {};
  /// Dimensions whose ranks divide them in every drawing; others are drawn so that some don't.
  std::vector<std::string> even = {};
  bool positive = false;  // inputs above zero
  double tolerance = 0;   // 0: the one for double, see differences_agree
};

/// A scalar function of some tensors, with its types erased.
struct problem {
  const char* what;
  laws::options options;
  struct dim {
    std::string name;
    bool over_dp, over_tp;
  };
  std::vector<dim> dims;
  /// The function at x + step * v, the same number on every rank.
  std::function<double(weft::context&, const extents&, double step)> at;
  /// <gradient, v> and the sum of its addends' magnitudes, over all ranks as the gradient's placement says.
  std::function<std::pair<double, double>(weft::context&, const extents&)> slope;
};

/// Runs the problem on each mesh with shapes drawn anew: value and slope agree with one rank's, and the slope with
/// finite differences.
void differences_agree(const problem& p);
/// What doesn't, a line each.
std::vector<std::string> disagreements(const problem& p);

}  // namespace laws
