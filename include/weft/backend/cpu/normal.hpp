// Initial values: see initial_values.
#pragma once

#include <weft/backend/cpu/common.hpp>
#include <weft/backend/initial_values.hpp>

namespace weft::cpu {

/// y[i] = mean + deviation * the standard normal number at the global index of a slice's element first + i.
template <class T>
void normal(team&, const placed_slice& at, int64 first, int64 count, double mean, double deviation,
            const philox& numbers, T* y) {
  weft::detail::initial_values(at, first, count, mean, deviation, numbers, y);
}

}  // namespace weft::cpu
