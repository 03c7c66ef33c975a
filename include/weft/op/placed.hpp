// Where a rank's share lies in the whole tensor, as kernels and monitors see it. Invariant: shares are equally long, so
// the last may end in padding.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/comm/context.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft::detail {

template <any_tensor X>
placed_slice placed(const X& x) {
  placed_slice at;
  [&]<class... Es>(dims<Es...>) {
    (([&] {
       const int d = at.ndim++;
       const std::int64_t n = x.template local_extent<tag_of<Es>>();
       at.local[d] = n;
       at.global[d] = global_extent<layout_of<X>, tag_of<Es>>(*x.ctx, n);
       at.first[d] = n * shard_index<layout_of<X>, tag_of<Es>>(*x.ctx);
     }()),
     ...);
  }(dims_of<X>{});
  return at;
}

}  // namespace weft::detail
