// Laws of a backend's choice of tokens from logits. Invariant: what is expected is computed by sums of doubles, a draw
// that falls within rounding of a border aside.
#pragma once

#include <algorithm>
#include <utility>

#include <weft/testing/backend/bench.hpp>

namespace weft::testing {
namespace detail::kernels {

/// The token lies where the draw falls, by sums of doubles over what the rule keeps; half of the logits are equal to
/// others, and one row's say nothing. Where the backend has no such kernel, nothing is asked: logits come to the host.
template <class T, class B>
void choices(bench<B>& b) {
  if constexpr (choice_kernel<B, T>) {
    b.has(true, "choose_tokens", dtype_of<T>);
    using weft::detail::choice_rule;
    const choice_rule rules[] = {{.penalty = 1.5},
                                 {.scale = 1},
                                 {.scale = 2, .top_k = 3},
                                 {.scale = 0.5, .top_p = 0.7},
                                 {.scale = 1, .least = -2.5},
                                 {.scale = 0.7, .top_k = 90, .top_p = 0.9, .least = -5, .penalty = 1.3}};
    for (const auto& [rows, vocab] : {std::pair{int64{5}, int64{37}}, {3, 2500}})
      for (const choice_rule& rule : rules) {
        auto logits = numbers<T>(rows * vocab, 1, -6, 6);
        for (int64 i = 0; i < rows * vocab; i += 2)
          logits[at(i)] = make<T>(std::floor(static_cast<double>(logits[at(i)])));
        logits[at((rows - 1) * vocab + 3)] = make<T>(std::nan(""));
        const auto uniform = numbers<double>(rows, 2, 0, 1);
        std::vector<weft::detail::choice_of_text> texts;
        std::vector<std::int32_t> penalised;
        for (int64 row = 0; row < rows; ++row) {
          texts.push_back(
              {uniform[at(row)], static_cast<std::int32_t>(penalised.size()), static_cast<std::int32_t>(row)});
          for (std::int32_t i = 0; i < row; ++i) penalised.push_back(5 * i);
        }
        std::vector<weft::detail::chosen_token> got(at(rows));
        const buffer<B, T> in(b, logits);
        B::choose_tokens(b.queue(), rows, vocab, in.in(), rule, texts.data(), penalised.data(), std::ssize(penalised),
                         got.data());
        in.host();  // waits
        b.mix(got.data(), got.size() * sizeof got[0]);
        b.must(got[at(rows - 1)].token == -1, "it chooses from a row with NaN");
        for (int64 row = 0; row + 1 < rows; ++row) {
          doubles x;
          for (int64 i = 0; i < vocab; ++i)
            x.push_back(static_cast<double>(static_cast<float>(logits[at(row * vocab + i)])));
          for (std::int32_t i = 0; i < row; ++i)
            x[at(5 * i)] =
                static_cast<float>(x[at(5 * i)] > 0 ? x[at(5 * i)] / rule.penalty : x[at(5 * i)] * rule.penalty);
          std::vector<int64> order(at(vocab));
          for (int64 i = 0; i < vocab; ++i) order[at(i)] = i;
          std::stable_sort(order.begin(), order.end(), [&](int64 i, int64 j) { return x[at(i)] > x[at(j)]; });
          const int64 token = got[at(row)].token;
          b.must(token >= 0 && token < vocab, "row ", row, ": it chooses ", token, " of ", vocab, " tokens");
          if (rule.scale == 0) {
            b.must(token == order[0], "row ", row, ": it chooses ", token, ", and the likeliest is ", order[0]);
            continue;
          }
          doubles weights(at(vocab)), kept = weights;
          double all = 0, sum = 0, before = 0, total = 0;
          if (rule.top_k > 0 && rule.top_k < vocab) order.resize(at(rule.top_k));
          for (const int64 i : order) all += weights[at(i)] = std::exp2((x[at(i)] - x[at(order[0])]) * rule.scale);
          for (const int64 i : order) {
            if (sum < rule.top_p * all && std::log2(weights[at(i)]) >= rule.least) kept[at(i)] = weights[at(i)];
            sum += weights[at(i)];
          }
          for (const double weight : kept) total += weight;
          for (int64 i = 0; i < token; ++i) before += kept[at(i)];
          const double drawn = uniform[at(row)] * total;
          b.must(
              kept[at(token)] > 0 && before <= drawn + 1e-9 * total && drawn <= before + kept[at(token)] + 1e-9 * total,
              "row ", row, ": it chooses ", token, ", where the draw doesn't fall");
        }
      }
  }
}

}  // namespace detail::kernels

/// The laws of `choose_tokens` of backend B, for element types Ts; of a backend without it, none. Throws weft::failure
/// where it is wrong.
template <class B, class... Ts>
backend_report check_choice_kernels(int threads = 1) {
  return detail::kernels::each_type<B, Ts...>(threads, []<class T>(auto& b) { detail::kernels::choices<T>(b); });
}

}  // namespace weft::testing
