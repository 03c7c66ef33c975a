// Initial values: see initial_values.
#pragma once

#include <weft/backend/cpu/common.hpp>
#include <weft/backend/initial_values.hpp>

namespace weft::cpu {

/// y[i] = mean + deviation * the standard normal number at the global index of a slice's element first + i.
template <class T>
void normal(team& workers, const placed_slice& at, int64 first, int64 count, double mean, double deviation,
            const philox& numbers, T* y) {
  detail::for_blocks(workers, count, detail::block_elements, [&](int64 begin, int64 end) {
    weft::detail::initial_values(at, first + begin, end - begin, mean, deviation, numbers, y + begin);
  });
}

}  // namespace weft::cpu
