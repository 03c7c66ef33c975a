// Sums look at what they add. Invariant: reads no elements.
#pragma once

#include <weft/comm/context.hpp>

namespace weft::detail {

/// Throws where a dimension that is summed over is padded: padding may hold anything.
template <dimension... Ds, any_tensor X>
void require_even(const X& x) {
  const auto check = [&]<class D>(D) {
    if constexpr (shard_axes<layout_of<X>, D>::size > 0) {
      const std::int64_t local = x.template local_extent<D>();
      require(
          global_extent<layout_of<X>, D>(*x.ctx, local) == local * shards_of<layout_of<X>, D>(*x.ctx),
          "a sum over dimension ", D::name,
          " would add its padding, since the ranks that share it don't divide it: all_gather<axis>(x) leaves that out");
    }
  };
  (check(Ds{}), ...);
}

}  // namespace weft::detail
