// Initial values: a constant and normal random numbers, each a function of its global index.
// Invariant: they are made on the host, so that they are the same on every backend.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/core/random.hpp>

namespace weft::detail {

/// y[i] = mean + deviation * n, n the standard normal number of `numbers` at the global index of element first + i of a
/// slice; i < count. 0 in the slice's padding. With a deviation of 0 no random number is computed.
template <class T>
void initial_values(const placed_slice& at, std::int64_t first, std::int64_t count, double mean, double deviation,
                    const philox& numbers, T* y) {
  std::uint64_t counter = ~std::uint64_t{0};  // whose four normals are known: neighbours share them
  std::array<float, 4> four{};
  at.runs(first, count, [&](std::int64_t i, std::int64_t place, std::int64_t n) {
    for (std::int64_t k = 0; k < n; ++k) {
      double x = place < 0 ? 0 : mean;
      if (place >= 0 && deviation != 0) {
        const auto index = static_cast<std::uint64_t>(place + k);
        if (index / 4 != counter) four = numbers.normals(counter = index / 4);
        x += deviation * static_cast<double>(four[index % 4]);
      }
      y[i + k] = static_cast<T>(static_cast<accumulate_t<T>>(x));
    }
  });
}

}  // namespace weft::detail
