// Cross-entropy over a vocabulary that may be cut over ranks, in pieces between which the ranks meet.
// Invariant: logits are read as stored; no second array of their size is ever made. A negative target ignores its row.
// Rows lie `stride` apart (0: n), and what is beyond their n columns is padding.
#pragma once

#include <cstring>

#include <weft/backend/cpu/softmax.hpp>

#define WEFT_KERNELS <weft/backend/cpu/cross_entropy.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu {

namespace detail {

template <class T>
void exp_sums(int64 n, const T* x, accumulate_t<T> m, accumulate_t<T>* sums) {
  WEFT_DISPATCH(exp_sums<false>, n, x, m, sums);
}
template <class T>
void exp_sums_and_sum(int64 n, const T* x, accumulate_t<T> m, accumulate_t<T>* sums) {
  WEFT_DISPATCH(exp_sums<true>, n, x, m, sums);
}
template <class T>
void cross_entropy_backward_row(int64 n, const T* x, int64 column, accumulate_t<T> m, accumulate_t<T> log_sum,
                                accumulate_t<T> g, accumulate_t<T> everywhere, accumulate_t<T> at_target, T* dx) {
  WEFT_DISPATCH(cross_entropy_backward_row, n, x, column, m, log_sum, g, everywhere, at_target, dx);
}

}  // namespace detail

/// m[row] = max of logits[row].  // logits [rows, n], m [rows]
template <class T>
void row_max(team& workers, int64 rows, int64 n, const T* logits, accumulate_t<T>* m, int64 stride = 0) {
  if (stride == 0) stride = n;
  detail::for_rows(workers, rows, n, [=](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) m[row] = detail::row_largest(n, logits + row * stride);
  });
}

/// sum_exp[row] = sum exp(logits - m[row]); target_logit[row] = the target's logit, or 0 when its column is not in
/// [vocab_begin, vocab_begin + n); sum_logits[row] = sum of logits - m[row], if not null. Exponentials below the
/// smallest normal number count as 0.  // logits [rows, n], others [rows]
template <class T>
void row_sums(team& workers, int64 rows, int64 n, const T* logits, int64 vocab_begin, const std::int32_t* targets,
              const accumulate_t<T>* m, accumulate_t<T>* sum_exp, accumulate_t<T>* target_logit,
              accumulate_t<T>* sum_logits = nullptr, int64 stride = 0) {
  using A = accumulate_t<T>;
  if (stride == 0) stride = n;
  detail::for_rows(workers, rows, n, [=](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      const T* x = logits + row * stride;
      A sums[2] = {0, 0};
      if (sum_logits) {
        detail::exp_sums_and_sum(n, x, m[row], sums);
        sum_logits[row] = sums[1];
      } else {
        detail::exp_sums(n, x, m[row], sums);
      }
      sum_exp[row] = sums[0];
      const int64 column = targets[row] - vocab_begin;
      target_logit[row] = targets[row] >= 0 && column >= 0 && column < n ? detail::widen(x[column]) : A(0);
    }
  });
}

/// dlogits = (p - (1 - label_smoothing) * onehot(target) - label_smoothing / vocab_global) * g[row], where p =
/// exp(logits - m[row] - log_sum[row]), m and log_sum those of the whole vocabulary; 0 in ignored rows and in padding.
/// dlogits may be logits.  // [rows, n]
template <class T>
void cross_entropy_backward(team& workers, int64 rows, int64 n, const T* logits, int64 vocab_begin,
                            const std::int32_t* targets, const accumulate_t<T>* m, const accumulate_t<T>* log_sum,
                            const accumulate_t<T>* g, double label_smoothing, int64 vocab_global, T* dlogits,
                            int64 stride = 0) {
  using A = accumulate_t<T>;
  if (stride == 0) stride = n;
  const A everywhere = static_cast<A>(label_smoothing / static_cast<double>(vocab_global));
  const A at_target = static_cast<A>(1 - label_smoothing);
  detail::for_rows(workers, rows, n, [=](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      T* dx = dlogits + row * stride;
      const int64 kept = targets[row] < 0 ? 0 : n;
      std::memset(static_cast<void*>(dx + kept), 0, static_cast<std::size_t>(stride - kept) * sizeof(T));
      if (kept > 0) {
        detail::cross_entropy_backward_row(n, logits + row * stride, targets[row] - vocab_begin, m[row], log_sum[row],
                                           g[row], everywhere, at_target, dx);
      }
    }
  });
}

}  // namespace weft::cpu
