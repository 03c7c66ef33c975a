// A weight's numbers with an adapter's product added. Invariant: computed in double, and rounded once.
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

#include <weft/backend/concept.hpp>

namespace weft::detail {

/// What a rank keeps of a weight, from element `begin` of its slice on; where it has factors, plus scale * B A.
template <class T>
struct merged_numbers {
  std::int64_t whole, begin;  // elements of the parameter
  std::span<const T> own;
  std::span<const double> a = {}, b = {};  // [rank, inputs], [outputs, rank]
  std::int64_t rank = 0;
  double scale = 0;

  std::int64_t size() const { return whole; }
  template <class Through, class Out>
  void read(const placed_slice& at, std::int64_t first, std::int64_t count, Out* out) const {
    const auto round = [](double x) {
      const auto through = static_cast<Through>(static_cast<accumulate_t<Through>>(x));
      return static_cast<Out>(static_cast<accumulate_t<Through>>(through));
    };
    const T* const from = own.data() + (first - begin);
    if (a.empty()) {
      if constexpr (std::is_same_v<T, Out>)
        std::copy_n(from, count, out);  // bits of a NaN too
      else
        for (std::int64_t i = 0; i < count; ++i) out[i] = round(static_cast<double>(from[i]));
      return;
    }
    const std::int64_t inputs = static_cast<std::int64_t>(a.size()) / rank;
    std::vector<double> sums;
    at.runs(first, count, [&](std::int64_t i, std::int64_t global, std::int64_t n) {
      for (std::int64_t done = 0, part; done < n; done += part) {
        const std::int64_t row = global < 0 ? 0 : (global + done) / inputs, column = (global + done) % inputs;
        part = global < 0 ? n : std::min(n - done, inputs - column);
        sums.assign(static_cast<std::size_t>(part), 0);
        for (std::int64_t k = 0; global >= 0 && k < rank; ++k) {
          const double factor = b[static_cast<std::size_t>(row * rank + k)];
          const double* const line = a.data() + k * inputs + column;
          for (std::int64_t j = 0; j < part; ++j) sums[static_cast<std::size_t>(j)] += factor * line[j];
        }
        for (std::int64_t j = 0; j < part; ++j)
          out[i + done + j] =
              round(static_cast<double>(from[i + done + j]) + scale * sums[static_cast<std::size_t>(j)]);
      }
    });
  }
};

}  // namespace weft::detail
