// What a rank holds of a dimension, and of a tensor: from global extents to this rank's. Invariant: all shares are
// equally long, and what a share has beyond the dimension's end is padding.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include <weft/tensor/context.hpp>

namespace weft {

namespace detail {
template <class Axes>
inline constexpr axis_set set_of_axes{Axes{}};
}

/// Product of the degrees of the axes that shard dimension D under layout L.
template <class L, class D>
int shards_of(const context& ctx) {
  return []<class... As>(const context& r, tag_list<As...>) { return (1 * ... * r.degree<As>().here()); }(
             ctx, shard_axes<L, D>{});
}
/// This rank's position among them, the first axis outermost.
template <class L, class D>
int shard_index(const context& ctx) {
  int index = 0;
  [&]<class... As>(tag_list<As...>) {
    ((index = index * ctx.degree<As>().here() + ctx.index<As>().here()), ...);
  }(shard_axes<L, D>{});
  return index;
}

/// A rank's run of a dimension: `local` elements from global index `first` on, of which the first `valid` are the
/// tensor's and the rest is padding. Over each axis, the outermost first, every rank has ceil(n / ranks) of what the
/// axes outside of it left, so that all shares are equally long.
struct dimension_run {
  std::int64_t local, first, valid;
};

/// This rank's run of a dimension of `whole` elements that is sharded over these axes, the outermost first.
WEFT_LINKED dimension_run run_of(const context& ctx, const axis_set& over, std::int64_t whole) {
  dimension_run run{whole, 0, whole};
  for (const axis_id axis : over) {
    const axis_group& along = ctx.along(axis);
    if (along.degree == 1) continue;
    const std::int64_t share = (run.local + along.degree - 1) / along.degree, begin = share * along.index;
    run = {share, run.first + begin, std::clamp<std::int64_t>(run.valid - begin, 0, share)};
  }
  return run;
}
/// That of dimension D under layout L.
template <class L, class D>
dimension_run run_of(const context& ctx, std::int64_t whole) {
  return run_of(ctx, detail::set_of_axes<shard_axes<L, D>>, whole);
}

/// What a tensor's type says of one of its dimensions, where code below the types reads it.
struct dimension_type {
  std::string_view name;
  const axis_set* over;  // the axes that shard it, the outermost first
  std::int64_t fixed;    // its static extent, or dynamic_extent
};

namespace detail {
template <class Dims, class L>
struct dimension_types;
template <class... Es, class L>
struct dimension_types<dims<Es...>, L> {
  static constexpr std::array<dimension_type, sizeof...(Es)> all{
      dimension_type{tag_of<Es>::name, &set_of_axes<shard_axes<L, tag_of<Es>>>, entry<Es>::size}...};
};
template <any_tensor X>
inline constexpr std::span<const dimension_type> dimensions_of =
    dimension_types<typename X::dims, typename X::layout>::all;

WEFT_LINKED shape local_shape(const context& ctx, std::span<const dimension_type> dimensions, const shape& global) {
  require(global.ndim == static_cast<int>(dimensions.size()), "a tensor of ", dimensions.size(),
          " dimensions was given ", global.ndim, " extents");
  shape out;
  for (const dimension_type& d : dimensions) {
    const std::int64_t n = global[out.ndim];
    require(d.fixed == dynamic_extent || d.fixed == n, "dimension ", d.name, " has ", d.fixed,
            " elements by its type, not ", n);
    out.push_back(run_of(ctx, *d.over, n).local);
  }
  return out;
}
}  // namespace detail

/// Local sizes of a tensor type from its global ones, padding included. Throws when a static extent is another one.
template <any_tensor X>
shape local_shape(const context& ctx, const shape& global) {
  return detail::local_shape(ctx, detail::dimensions_of<X>, global);
}

}  // namespace weft
