// The end of cross-entropy: row losses from each row's maximum, sum of exponentials and target logit.
// Invariant: rows whose target is negative count for nothing; sums are formed in double, in row order.
#pragma once

#include <cmath>

#include <weft/backend/cpu/common.hpp>

namespace weft::cpu {

/// log_sum[row] = log(sum_exp); adds up loss = log_sum - (1-s) (target_logit - m) - s/vocab sum_logits over rows, and
/// counts them. s is the label smoothing; sum_logits, those of logits - m, may be null when s is 0. One value each is
/// written to `loss` and `count`. Nothing is added to m, whose digits a loss of ordinary size would lose.
template <class A>
void row_loss(team&, int64 rows, const std::int32_t* targets, const A* m, const A* sum_exp, const A* target_logit,
              const A* sum_logits, double smoothing, int64 vocab, A* log_sum, A* loss, A* count) {
  double total = 0, counted = 0;
  for (int64 row = 0; row < rows; ++row) {
    const double of_sum = std::log(static_cast<double>(sum_exp[row]));
    log_sum[row] = static_cast<A>(of_sum);
    if (targets[row] < 0) continue;
    const double spread =
        smoothing != 0 ? smoothing * static_cast<double>(sum_logits[row]) / static_cast<double>(vocab) : 0;
    const double below = static_cast<double>(target_logit[row]) - static_cast<double>(m[row]);
    total += of_sum - (1 - smoothing) * below - spread;
    counted += 1;
  }
  *loss = static_cast<A>(total);
  *count = static_cast<A>(counted);
}

}  // namespace weft::cpu
