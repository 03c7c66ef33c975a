// Cross-entropy over a vocabulary that may be cut over ranks, in pieces between which the ranks meet.
// Invariant: logits are read as stored; no second array of their size is ever made. A negative target ignores its row.
#pragma once

#include <cmath>
#include <limits>

#include <weft/backend/cpu/common.hpp>

namespace weft::cpu {

/// m[row] = max of logits[row].  // logits [rows, n], m [rows]
template <class T>
void row_max(team& workers, int64 rows, int64 n, const T* logits, accumulate_t<T>* m) {
  using A = accumulate_t<T>;
  detail::for_rows(workers, rows, n, [=](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      A largest = -std::numeric_limits<A>::infinity();
      for (int64 i = 0; i < n; ++i) largest = std::fmax(largest, detail::widen(logits[row * n + i]));
      m[row] = largest;
    }
  });
}

/// sum_exp[row] = sum exp(logits - m[row]); target_logit[row] = the target's logit, or 0 when its column is not in
/// [vocab_begin, vocab_begin + n); sum_logits[row] = sum of logits, if not null.  // logits [rows, n], others [rows]
template <class T>
void row_sums(team& workers, int64 rows, int64 n, const T* logits, int64 vocab_begin, const std::int32_t* targets,
              const accumulate_t<T>* m, accumulate_t<T>* sum_exp, accumulate_t<T>* target_logit,
              accumulate_t<T>* sum_logits = nullptr) {
  using A = accumulate_t<T>;
  detail::for_rows(workers, rows, n, [=](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      const T* x = logits + row * n;
      A exps = 0, sum = 0;
      for (int64 i = 0; i < n; ++i) {
        exps += std::exp(detail::widen(x[i]) - m[row]);
        sum += detail::widen(x[i]);
      }
      const int64 column = targets[row] - vocab_begin;
      sum_exp[row] = exps;
      target_logit[row] = targets[row] >= 0 && column >= 0 && column < n ? detail::widen(x[column]) : A(0);
      if (sum_logits) sum_logits[row] = sum;
    }
  });
}

/// dlogits = (exp(logits - lse) - (1 - label_smoothing) * onehot(target) - label_smoothing / vocab_global) * g[row];
/// 0 in ignored rows. dlogits may be logits.  // [rows, n]
template <class T>
void cross_entropy_backward(team& workers, int64 rows, int64 n, const T* logits, int64 vocab_begin,
                            const std::int32_t* targets, const accumulate_t<T>* lse, const accumulate_t<T>* g,
                            double label_smoothing, int64 vocab_global, T* dlogits) {
  using A = accumulate_t<T>;
  const A everywhere = static_cast<A>(label_smoothing / static_cast<double>(vocab_global));
  const A at_target = static_cast<A>(1 - label_smoothing);
  detail::for_rows(workers, rows, n, [=](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      const T* x = logits + row * n;
      T* dx = dlogits + row * n;
      if (targets[row] < 0) {
        for (int64 i = 0; i < n; ++i) dx[i] = T();
        continue;
      }
      const int64 column = targets[row] - vocab_begin;
      for (int64 i = 0; i < n; ++i) {
        const A hot = i == column ? at_target : A(0);
        dx[i] = detail::narrow<T>((std::exp(detail::widen(x[i]) - lse[row]) - hot - everywhere) * g[row]);
      }
    }
  });
}

}  // namespace weft::cpu
