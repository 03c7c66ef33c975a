// What every law stands on: ranks of a dp x tp mesh, and a differentiable problem with its types erased.
// Invariant: all numbers are functions of global indices, so one rank and eight work on the same problem.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <weft/backend/cpu.hpp>
#include <weft/op/placed.hpp>
#include <weft/policy/mesh.hpp>

namespace weft::testing {

/// The meshes that laws are tried on: 1, 2, 4, 6 and 8 ranks.
inline constexpr degrees meshes[] = {{.dp = 1, .tp = 1}, {.dp = 2, .tp = 1}, {.dp = 1, .tp = 2}, {.dp = 2, .tp = 2},
                                     {.dp = 1, .tp = 4}, {.dp = 3, .tp = 2}, {.dp = 2, .tp = 3}, {.dp = 4, .tp = 2},
                                     {.dp = 2, .tp = 4}, {.dp = 1, .tp = 8}};

/// Sum of a number over all ranks of the mesh.
inline double world_sum(context& ctx, double x) {
  double out = 0;
  ctx.world.all_reduce(&x, &out, 1, dtype::f64, reduction::sum).wait();
  return out;
}
/// Throws unless all ranks along the axis hold the same bytes' values in `data`.
inline void require_equal_along(context& ctx, axis_id axis, const local_array& data, const char* what) {
  axis_group* group = ctx.group(axis);
  if (!group) return;
  local_array low = ctx.make(data.type, data.shape), high = ctx.make(data.type, data.shape);
  group->comm.all_reduce(data.data, low.data, data.elements(), data.type, reduction::min).wait();
  group->comm.all_reduce(data.data, high.data, data.elements(), data.type, reduction::max).wait();
  visit_dtype(data.type, [&]<class T>() {
    for (std::int64_t i = 0; i < data.elements(); ++i)
      require(low.as<T>()[i] == high.as<T>()[i], what, ": element ", i, " differs between the ranks along ",
              std::string(group->name), ": ", double(low.as<T>()[i]), " and ", double(high.as<T>()[i]));
  });
}

/// x's share with zeros in the padding.
template <any_tensor X>
local_array without_padding(const X& x) {
  return weft::detail::with_padding<typename X::backend>(*x.ctx, x.held(), weft::detail::valid_part(x));
}
/// NaN in x's padding, which nothing may read.
template <any_tensor X>
void poison_padding(const X& x) {
  if constexpr (floating<typename X::element_type>) {
    const local_array poisoned = weft::detail::with_padding<typename X::backend>(
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
    fail("no extent was drawn for ", std::string(name));
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
  double tolerance = 0;   // 0: the one for double, see disagreements
  int every = 1;          // tries one mesh of so many
};

/// A scalar function of some tensors, with its types erased.
struct problem {
  const char* what;
  testing::options options;
  struct dim {
    std::string name;
    bool over_dp, over_tp;
  };
  std::vector<dim> dims;
  /// The function at x + step * v, the same number on every rank.
  std::function<double(context&, const extents&, double step)> at;
  /// <gradient, v> and the sum of its addends' magnitudes, over all ranks as the gradient's placement says.
  std::function<std::pair<double, double>(context&, const extents&)> slope;
};

}  // namespace weft::testing
