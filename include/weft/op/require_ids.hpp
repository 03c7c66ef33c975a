// Ids are looked at before kernels use them, where the host can. Invariant: reads only.
#pragma once

#include <algorithm>

#include <weft/core/refusal.hpp>
#include <weft/op/placed.hpp>

namespace weft {
namespace detail {
/// The element type of ids that aren't int32: `elements_of<float>`, or without an argument.
template <class Ids>
using not_ids = std::conditional_t<std::same_as<typename Ids::element_type, std::int32_t>, elements_of<>,
                                   elements_of<typename Ids::element_type>>;
}  // namespace detail

/// Throws weft::failure unless every id on this rank is in [lowest, end). Does nothing on a device, or behind any queue
/// that the host would have to wait for: kernels take an id outside of the table for one that isn't there. Cost: one
/// read of the ids.
template <any_tensor Ids>
void require_ids(const Ids& ids, std::int64_t lowest, std::int64_t end, const char* what) {
  static_assert(detail::none<detail::not_ids<Ids>>,
                "weft: require_ids(ids, ...) takes ids of int32: make them so, from_global<tensor<std::int32_t, "
                "dims<...>>>(ctx, {...}, numbers)");
  if constexpr (Ids::backend::host_memory) {
    const auto* id = untyped(ids).held().template as<std::int32_t>();
    std::int64_t low = lowest, high = lowest;
    detail::each_element(detail::placed(ids), [&](std::int64_t at, std::int64_t index) {
      if (index < 0) return;
      low = std::min<std::int64_t>(low, id[at]);
      high = std::max<std::int64_t>(high, id[at]);
    });
    require(low >= lowest && high < end, what, " ", low < lowest ? low : high, " is outside of the vocabulary, whose ",
            end, " tokens count from 0; check the data, or make vocab larger");
  }
}

}  // namespace weft
