// What every law stands on: the meshes that it is tried on, and a differentiable problem with its types erased.
// Invariant: all numbers are functions of global indices, so one rank and eight work on the same problem; axes and
// dimensions are told apart by their tags, whatever they are called.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <weft/backend/cpu.hpp>
#include <weft/op/placed.hpp>
#include <weft/policy/mesh.hpp>

namespace weft::testing {

/// The meshes that laws are tried on along dp and tp: 1, 2, 4, 6 and 8 ranks.
inline constexpr degrees meshes[] = {{.dp = 1, .tp = 1}, {.dp = 2, .tp = 1}, {.dp = 1, .tp = 2}, {.dp = 2, .tp = 2},
                                     {.dp = 1, .tp = 4}, {.dp = 3, .tp = 2}, {.dp = 2, .tp = 3}, {.dp = 4, .tp = 2},
                                     {.dp = 2, .tp = 4}, {.dp = 1, .tp = 8}};

namespace detail {

/// The same along other axes: `meshes` for two; 1, 2, 3, 4, 6 and 8 ranks along one; of more, two neighbours at a time,
/// and two ranks along each of the first three.
inline std::vector<degrees> meshes_along(const std::vector<axis_id>& axes) {
  std::vector<degrees> out;
  const std::size_t n = axes.size();
  if (n == 1)
    for (const int ranks : {1, 2, 3, 4, 6, 8}) out.push_back(degrees{}.with(axes[0], ranks));
  if (n < 2) return out.empty() ? std::vector<degrees>{{}} : out;
  std::size_t first = 0;
  for (const degrees& d : meshes) {
    out.push_back(degrees{}.with(axes[first], d.dp).with(axes[(first + 1) % n], d.tp));
    if (n > 2) first = (first + 1) % n;
  }
  if (n > 2) out.push_back(degrees{}.with(axes[0], 2).with(axes[1], 2).with(axes[2], 2));
  return out;
}

/// Sum of a number over all ranks of the mesh.
inline double world_sum(context& ctx, double x) {
  double out = 0;
  ctx.world.host().all_reduce(&x, &out, 1, dtype::f64, reduction::sum).wait();
  return out;
}
}  // namespace detail

/// Throws unless all ranks along the axis hold the same values in `data`, which lies in the host's memory.
inline void require_equal_along(context& ctx, axis_id axis, const local_array& data, const char* what) {
  axis_group& group = ctx.along(axis);
  if (group.degree == 1) return;
  any_communicator host = group.comm.host();
  visit_dtype(data.type, [&]<class T>() {
    const auto n = static_cast<std::size_t>(data.elements());
    std::vector<T> low(n), high(n);
    host.all_reduce(data.data, low.data(), data.elements(), data.type, reduction::min).wait();
    host.all_reduce(data.data, high.data(), data.elements(), data.type, reduction::max).wait();
    for (std::size_t i = 0; i < n; ++i)
      require(low[i] == high[i], what, ": element ", i, " differs between the ranks along ", std::string(group.name),
              ": ", double(low[i]), " and ", double(high[i]));
  });
}

namespace detail {

/// x's share, with zeros in the padding, on the host.
template <any_tensor X>
std::vector<typename X::element_type> without_padding(const X& x) {
  using backend = typename X::backend;
  const local_array share =
      weft::detail::with_padding<backend>(*untyped(x).ctx, untyped(x).held(), weft::detail::valid_part(x));
  std::vector<typename X::element_type> out(static_cast<std::size_t>(share.elements()));
  backend::download(untyped(x).ctx->template queue<backend>(), share.template as<typename X::element_type>(),
                    out.data(), share.bytes());
  return out;
}
/// NaN in x's padding, which nothing may read.
template <any_tensor X>
void poison_padding(const X& x) {
  if constexpr (floating<typename X::element_type>) {
    const local_array poisoned = weft::detail::with_padding<typename X::backend>(
        *untyped(x).ctx, untyped(x).held(), weft::detail::valid_part(x), __builtin_nan(""));
    X::backend::copy_bytes(untyped(x).ctx->template queue<typename X::backend>(), poisoned.data, untyped(x).held().data,
                           untyped(x).held().bytes());
  }
}

}  // namespace detail

/// Which dimension is meant, by its tag: `batch{}`. Two tags with one name are two dimensions.
struct dimension_key {
  template <dimension D>
  dimension_key(D) : id(id_of<D>) {}
  dim_id id;
  friend bool operator==(const dimension_key&, const dimension_key&) = default;
};

/// Global extents by dimension.
struct extents {
  std::vector<std::pair<dimension_key, std::int64_t>> known;
  std::int64_t of(dimension_key dim) const {
    for (const auto& [d, size] : known)
      if (d == dim) return size;
    fail("no extent was drawn for dimension ", std::string(dim.id->name));
  }
};

/// What is said of a drawing, dimension by dimension: `{.base = {{hidden{}, 5}}, .even = {heads{}}}`.
struct options {
  /// Extents that are not drawn from 1 ... 4 (times the ranks that share the dimension).
  std::vector<std::pair<dimension_key, std::int64_t>> base = {};
  /// Dimensions that the operator itself shards, over whichever axes.
  std::vector<dimension_key> divided = {};
  /// Dimensions whose ranks divide them in every drawing; others are drawn so that some don't.
  std::vector<dimension_key> even = {};
  bool positive = false;  // inputs above zero
  double tolerance = 0;   // 0: the one for double, see disagreements
  int every = 1;          // tries one mesh of so many
};

/// A dimension of a law's tensors, and the axes over which any of them shards it.
struct drawn_dimension {
  dimension_key key;
  std::vector<axis_id> over = {};
};

/// A scalar function of some tensors, with its types erased.
struct problem {
  const char* what;
  testing::options options;
  std::vector<drawn_dimension> dims;
  /// The function at x + step * v, the same number on every rank.
  std::function<double(context&, const extents&, double step)> at;
  /// <gradient, v> and the sum of its addends' magnitudes, over all ranks as the gradient's placement says.
  std::function<std::pair<double, double>(context&, const extents&)> slope;
};

}  // namespace weft::testing
