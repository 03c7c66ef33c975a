// What a rank holds of a dimension, and of a tensor: from global extents to this rank's. Invariant: all shares are
// equally long, and what a share has beyond the dimension's end is padding.
#pragma once

#include <weft/comm/context.hpp>

namespace weft {

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

/// This rank's run of dimension D of `whole` elements under layout L.
template <class L, class D>
dimension_run run_of(const context& ctx, std::int64_t whole) {
  dimension_run run{whole, 0, whole};
  [&]<class... As>(tag_list<As...>) {
    (([&] {
       const std::int64_t n = ctx.degree<As>();
       if (n == 1) return;
       const std::int64_t share = (run.local + n - 1) / n, begin = share * ctx.index<As>().here();
       run = {share, run.first + begin, std::clamp<std::int64_t>(run.valid - begin, 0, share)};
     }()),
     ...);
  }(shard_axes<L, D>{});
  return run;
}

/// Local sizes of a tensor type from its global ones, padding included. Throws when a static extent is another one.
template <any_tensor X>
shape local_shape(const context& ctx, const shape& global) {
  require(global.ndim == X::dims::ndim, "a tensor of ", X::dims::ndim, " dimensions was given ", global.ndim,
          " extents");
  shape out;
  [&]<class... Es>(dims<Es...>) {
    [[maybe_unused]] int i = 0;
    (([&] {
       constexpr std::int64_t fixed = detail::entry<Es>::size;
       require(fixed == dynamic_extent || fixed == global[i], "dimension ", tag_of<Es>::name, " has ", fixed,
               " elements by its type, not ", global[i]);
       out.push_back(run_of<typename X::layout, tag_of<Es>>(ctx, global[i]).local);
       ++i;
     }()),
     ...);
  }(typename X::dims{});
  return out;
}

}  // namespace weft
