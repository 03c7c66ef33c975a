// Initial values: see normal_numbers.
#pragma once

#include <weft/backend/cpu/common.hpp>
#include <weft/backend/normal_numbers.hpp>

namespace weft::cpu {

/// y[i] = mean + deviation * the standard normal number at the global index of a slice's element first + i.
template <class T>
void normal(team&, const placed_slice& at, int64 first, int64 count, double mean, double deviation,
            const philox& numbers, T* y) {
  weft::detail::normal_numbers(at, first, count, mean, deviation, numbers, y);
}

}  // namespace weft::cpu
