// Ids are looked at before kernels use them, where the host can. Invariant: reads only.
#pragma once

#include <algorithm>

#include <weft/op/placed.hpp>

namespace weft {

/// Throws weft::failure unless every id on this rank is in [lowest, end). Does nothing on a device, whose kernels take
/// an id outside of the table for one that isn't there. Cost: one read of the ids.
template <any_tensor Ids>
void require_ids(const Ids& ids, std::int64_t lowest, std::int64_t end, const char* what) {
  static_assert(std::same_as<typename Ids::element_type, std::int32_t>, "weft: ids are int32");
  if constexpr (Ids::backend::host_memory) {
    const local_array seen = detail::with_padding<typename Ids::backend>(*ids.ctx, ids.held(), detail::valid_part(ids),
                                                                         static_cast<double>(lowest));
    const auto* id = seen.template as<std::int32_t>();
    const std::int64_t n = seen.elements();
    std::int64_t low = lowest, high = lowest;
    for (std::int64_t i = 0; i < n; ++i) {
      low = std::min<std::int64_t>(low, id[i]);
      high = std::max<std::int64_t>(high, id[i]);
    }
    require(low >= lowest && high < end, what, " ", low < lowest ? low : high, " is outside of the vocabulary, whose ",
            end, " tokens count from 0; check the data, or make vocab larger");
  }
}

}  // namespace weft
