// RMSNorm (Zhang & Sennrich 2019) over rows, and its backward.
// Invariant: the gradient of the weight is summed over fixed groups of rows, then over the groups in order.
#pragma once

#include <cmath>
#include <vector>

#include <weft/backend/cpu/common.hpp>

namespace weft::cpu {

/// y = x * rstd * weight, rstd[row] = 1 / sqrt(mean(x^2) + eps).  // x, y [rows, width], weight [width], rstd [rows]
template <class T>
void rms_norm(team& workers, int64 rows, int64 width, double eps, const T* x, const T* weight, T* y,
              accumulate_t<T>* rstd) {
  using A = accumulate_t<T>;
  detail::for_rows(workers, rows, width, [=](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      const T* px = x + row * width;
      T* py = y + row * width;
      A squares = 0;
      for (int64 i = 0; i < width; ++i) squares += detail::widen(px[i]) * detail::widen(px[i]);
      const A r = 1 / std::sqrt(squares / static_cast<A>(width) + static_cast<A>(eps));
      for (int64 i = 0; i < width; ++i) py[i] = detail::narrow<T>(detail::widen(px[i]) * r * detail::widen(weight[i]));
      if (rstd) rstd[row] = r;
    }
  });
}

/// dx (+)= rstd * (w*dy - x * rstd^2 * mean(w*dy*x)), dweight (+)= sum over rows of dy * x * rstd; each may be null.
template <class T, class G>
void rms_norm_backward(team& workers, int64 rows, int64 width, const T* x, const T* weight, const accumulate_t<T>* rstd,
                       const T* dy, T* dx, bool add_dx, G* dweight, bool add_dweight) {
  using A = accumulate_t<T>;
  constexpr int64 group = 32;  // rows whose dweight is summed together
  const int64 groups = (rows + group - 1) / group;
  std::vector<A> parts(dweight ? static_cast<std::size_t>(groups * width) : 0);
  detail::for_blocks(workers, rows, group, [&](int64 begin, int64 end) {
    A* part = dweight ? parts.data() + begin / group * width : nullptr;
    for (int64 row = begin; row < end; ++row) {
      const T* px = x + row * width;
      const T* pd = dy + row * width;
      const A r = rstd[row];
      if (part)
        for (int64 i = 0; i < width; ++i) part[i] += detail::widen(pd[i]) * detail::widen(px[i]) * r;
      if (dx) {
        A dot = 0;
        for (int64 i = 0; i < width; ++i) dot += detail::widen(weight[i]) * detail::widen(pd[i]) * detail::widen(px[i]);
        const A c = dot * r * r / static_cast<A>(width);
        for (int64 i = 0; i < width; ++i)
          detail::put(dx[row * width + i],
                      r * (detail::widen(weight[i]) * detail::widen(pd[i]) - detail::widen(px[i]) * c), add_dx);
      }
    }
  });
  if (dweight)
    for (int64 i = 0; i < width; ++i) {
      A total = 0;
      for (int64 g = 0; g < groups; ++g) total += parts[static_cast<std::size_t>(g * width + i)];
      detail::put(dweight[i], total, add_dweight);
    }
}

}  // namespace weft::cpu
