// The largest number along a dimension, and where it is. Both are formulas of a row (op/rowwise.hpp).
// Invariant: NaN is larger than every number, so it is never lost.
#pragma once

#include <weft/op/rowwise.hpp>

namespace weft {
namespace detail {

struct max_formula {
  static constexpr std::string_view name = "max";
  template <class T>
  constexpr T forward(std::span<const T> x) const {
    T most = x[0];
    for (const T v : x)
      if (v > most || v != v) most = v;
    return most;
  }
  template <class T>
  constexpr void vjp(T dy, std::span<const T> x, T y, std::span<T> dx) const {
    const auto is_largest = [y](T v) { return v == y || (v != v && y != y); };
    const auto ties = std::count_if(x.begin(), x.end(), is_largest);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (is_largest(x[i])) dx[i] = dy / static_cast<T>(ties);
  }
};

struct argmax_formula {
  static constexpr std::string_view name = "argmax";
  template <class T>
  constexpr std::int32_t forward(std::span<const T> x) const {
    std::size_t at = 0;
    for (std::size_t i = 0; i < x.size() && x[at] == x[at]; ++i)
      if (x[i] > x[at] || x[i] != x[i]) at = i;
    return static_cast<std::int32_t>(at);
  }
};

}  // namespace detail

/// The largest number along D; NaN where one is. Shape: x without D. Placement: as x, which may not be partial, nor
/// sharded along D: all_gather<axis>(x) it first. Gradient: to the largest, shared equally where several are. Cost: an
/// operation an element; on a device a row is a thread's.
template <dimension D, any_tensor X>
auto max(const X& x) {
  return rowwise<D>(detail::max_formula{}, x);
}

/// Where the largest number along D is: its index, int32; the first of several, the first NaN where there is one. Shape
/// and placement as max<D>(x); no gradient. Cost: an operation an element; on a
/// device a row is a thread's.
template <dimension D, any_tensor X>
auto argmax(const X& x) {
  return rowwise<D>(detail::argmax_formula{}, x);
}

}  // namespace weft
