// Softmax over the middle dimension of [outer, n, inner], and its backward.
// Invariant: the largest element is subtracted first, so nothing overflows.
#pragma once

#include <cmath>
#include <limits>

#include <weft/backend/cpu/common.hpp>

namespace weft::cpu {

/// y = exp(x - max x) / sum exp(x - max x) over the middle dimension.  // [outer, n, inner]
template <class T>
void softmax(team& workers, int64 outer, int64 n, int64 inner, const T* x, T* y) {
  using A = accumulate_t<T>;
  detail::for_rows(workers, outer * inner, n, [=](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      const int64 at = row / inner * n * inner + row % inner;
      A largest = -std::numeric_limits<A>::infinity(), total = 0;
      for (int64 i = 0; i < n; ++i) largest = std::fmax(largest, detail::widen(x[at + i * inner]));
      for (int64 i = 0; i < n; ++i) total += std::exp(detail::widen(x[at + i * inner]) - largest);
      for (int64 i = 0; i < n; ++i)
        y[at + i * inner] = detail::narrow<T>(std::exp(detail::widen(x[at + i * inner]) - largest) / total);
    }
  });
}

/// dx (+)= y * (dy - sum(y * dy)) over the middle dimension.  // [outer, n, inner]
template <class T>
void softmax_backward(team& workers, int64 outer, int64 n, int64 inner, const T* y, const T* dy, T* dx, bool add) {
  using A = accumulate_t<T>;
  detail::for_rows(workers, outer * inner, n, [=](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      const int64 at = row / inner * n * inner + row % inner;
      A dot = 0;
      for (int64 i = 0; i < n; ++i) dot += detail::widen(y[at + i * inner]) * detail::widen(dy[at + i * inner]);
      for (int64 i = 0; i < n; ++i) {
        const int64 j = at + i * inner;
        detail::put(dx[j], detail::widen(y[j]) * (detail::widen(dy[j]) - dot), add);
      }
    }
  });
}

}  // namespace weft::cpu
