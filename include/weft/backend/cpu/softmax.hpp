// Softmax over the middle dimension of [outer, n, inner], and its backward.
// Invariant: the largest element is subtracted first, so nothing overflows.
#pragma once

#include <weft/backend/cpu/vmath.hpp>

#define WEFT_KERNELS <weft/backend/cpu/softmax.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu {

namespace detail {

template <class T>
accumulate_t<T> row_largest(int64 n, const T* x) {
  WEFT_DISPATCH(row_largest, n, x);
}
template <class T>
void softmax_row(int64 n, const T* x, T* y, accumulate_t<T>* buffer) {
  WEFT_DISPATCH(softmax_row, n, x, y, buffer);
}
template <class T>
void softmax_backward_row(int64 n, const T* y, const T* dy, T* dx, bool add) {
  WEFT_DISPATCH(softmax_backward_row, n, y, dy, dx, add);
}
template <class T>
void softmax_columns(int64 n, int64 inner, const T* x, T* y) {
  WEFT_DISPATCH(softmax_columns, n, inner, x, y);
}
template <class T>
void softmax_backward_columns(int64 n, int64 inner, const T* y, const T* dy, T* dx, bool add) {
  WEFT_DISPATCH(softmax_backward_columns, n, inner, y, dy, dx, add);
}

/// Elements of the buffer that one task takes.
constexpr int64 softmax_buffer(int64 n, int64 inner) { return inner == 1 ? n + 16 : 0; }

}  // namespace detail

/// y = exp(x - max x) / sum exp(x - max x) over the middle dimension; y may be x.  // [outer, n, inner]
template <class T>
void softmax(team& workers, int64 outer, int64 n, int64 inner, const T* x, T* y) {
  using A = accumulate_t<T>;
  const detail::using_stack own(workers.stack());
  detail::for_rows(workers, outer, n * inner, [=](int64 begin, int64 end) {
    const scratch buffer(static_cast<std::size_t>(detail::softmax_buffer(n, inner)) * sizeof(A));
    for (int64 row = begin; row < end; ++row) {
      const int64 at = row * n * inner;
      if (inner == 1) {
        detail::softmax_row(n, x + at, y + at, buffer.as<A>());
      } else {
        detail::softmax_columns(n, inner, x + at, y + at);
      }
    }
  });
}

/// What that call takes of scratch on a team of so many threads.
template <class T>
scratch_need softmax_scratch(int threads, int64 outer, int64 n, int64 inner, const T*, const T*) {
  return detail::loop_need(threads, detail::blocks_of(outer, detail::rows_at_once(n * inner)),
                           detail::scratch_lines(detail::softmax_buffer(n, inner), sizeof(accumulate_t<T>)));
}

/// dx (+)= y * (dy - sum(y * dy)) over the middle dimension; dx may be dy.  // [outer, n, inner]
template <class T>
void softmax_backward(team& workers, int64 outer, int64 n, int64 inner, const T* y, const T* dy, T* dx, bool add) {
  detail::for_rows(workers, outer, n * inner, [=](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      const int64 at = row * n * inner;
      if (inner == 1) {
        detail::softmax_backward_row(n, y + at, dy + at, dx + at, add);
      } else {
        detail::softmax_backward_columns(n, inner, y + at, dy + at, dx + at, add);
      }
    }
  });
}

}  // namespace weft::cpu
