// The choice of a token from each row of logits, as kernel bodies: keys of all tokens (token_choice.hpp), which are
// sorted between two of these kernels; their weights, which are added up between two others; and the place where a
// row's sum comes to a number. Invariant: sums are of integers, so no order matters.
// Of n tokens in r rows; p are penalised, of those listed; v is log2 of a row's tokens:
//   token_keys_kernel: n (T + 8) bytes, 0 FLOPs
//   penalise_kernel: 64 p + 4 listed + 16 r bytes, p FLOPs
//   last_kept_kernel: 32 (v + 1) r bytes, 0 FLOPs
//   choose_kernel: 32 v r bytes, 0 FLOPs
#pragma once

#include <weft/backend/cuda/kernel.hpp>
#include <weft/backend/token_choice.hpp>

namespace weft::gpu {

using weft::detail::choice_of_text;
using weft::detail::choice_rule;
using weft::detail::chosen_token;
using weft::detail::token_keys;

/// The sizes of rows that tokens are chosen from: of at most most_tokens_to_choose_from in all.
struct choice_rows {
  int64 rows, vocab;
  token_keys order;
};

/// keys [rows, vocab]: of logits [rows, vocab].
template <class T>
struct token_keys_kernel {
  choice_rows of;
  const T* logits;
  std::uint64_t* keys;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<1>(block, of.rows * of.vocab, false, [&]<int>(int64 i) {
      const auto logit = static_cast<float>(block.widen(logits[i]));
      const std::uint32_t at = static_cast<std::uint32_t>(i), vocab = static_cast<std::uint32_t>(of.vocab);
      keys[i] = of.order.key(at / vocab, logit, at % vocab);
    });
  }
};

/// Keys of the tokens that are penalised, each listed once for a row. A block takes a row.
struct penalise_kernel {
  choice_rows of;
  double penalty;
  const choice_of_text* texts;  // [rows]
  const std::int32_t* tokens;
  std::uint64_t* keys;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for (int64 row = block.index(); row < of.rows; row += block.blocks())
      for (int64 i = block.thread(); i < texts[row].count; i += block.threads()) {
        const std::int32_t token = tokens[texts[row].first + i];
        std::uint64_t& key = keys[row * of.vocab + token];
        const float logit = weft::detail::penalised(of.order.logit(key), penalty);
        key = of.order.key(row, logit, token);
      }
  }
};

/// The weight of each of [rows, vocab] tokens: `keys` in the order of indices, of which those up to the row's `last`
/// are kept, and by min_p; or, where there is no `last`, in their own order, of which the first are kept, as top_k
/// says.
struct token_weights {
  choice_rows of;
  choice_rule rule;
  const std::uint64_t *keys, *firsts, *last;  // [rows, vocab], [rows]: a row's first key, [rows] or null
  bool sorted;

  WEFT_ANYWHERE std::int64_t operator()(std::int64_t at) const {
    const std::int64_t row = static_cast<std::uint32_t>(at) / static_cast<std::uint32_t>(of.vocab);
    const std::uint64_t key = keys[at];
    const double level = weft::detail::level_of(of.order.logit(key), of.order.logit(firsts[row]), rule.scale);
    const bool kept =
        sorted ? at - row * of.vocab < rule.most(of.vocab) : (!last || key <= last[row]) && !(level < rule.least);
    return kept ? weft::detail::weight_of(level) : 0;
  }
};

/// sums [rows, vocab]: of the weights of all tokens up to each.
struct summed_weights {
  int64 vocab;
  const int64* sums;

  /// Where in a row the sum of its weights first comes above number(total), which is below the total.
  template <class Number>
  WEFT_ON_DEVICE int64 first_above(int64 row, const Number& number) const {
    const int64* const upto = sums + row * vocab;
    const int64 before = row > 0 ? upto[-1] : 0;
    const int64 wanted = before + number(upto[vocab - 1] - before);
    int64 first = 0;
    for (int64 count = vocab; count > 0;) {
      const int64 half = count / 2;
      const bool behind = upto[first + half] <= wanted;
      first += behind ? half + 1 : 0;
      count = behind ? count - half - 1 : half;
    }
    return first;
  }
};

/// last [rows]: the key of the last token that top_k and top_p keep; keys are sorted, and sums null without top_p. A
/// row is one thread's of a block.
struct last_kept_kernel {
  choice_rows of;
  choice_rule rule;
  const std::uint64_t* keys;
  summed_weights weights;
  std::uint64_t* last;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    if (block.thread() > 0) return;
    for (int64 row = block.index(); row < of.rows; row += block.blocks()) {
      const std::uint64_t* const in_row = keys + row * of.vocab;
      int64 at = rule.most(of.vocab) - 1;
      if (weights.sums && weft::detail::is_finite(static_cast<double>(of.order.logit(in_row[0]))))
        at = weights.first_above(row, [&](int64 total) { return weft::detail::kept_sum(total, rule.top_p); });
      last[row] = in_row[at];
    }
  }
};

/// out [rows]: the tokens; sums are null where it is the likeliest. A row is one thread's of a block.
struct choose_kernel {
  choice_rows of;
  const std::uint64_t* firsts;  // [rows]
  summed_weights weights;
  const choice_of_text* texts;  // [rows]
  chosen_token* out;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    if (block.thread() > 0) return;
    for (int64 row = block.index(); row < of.rows; row += block.blocks()) {
      const float top = of.order.logit(firsts[row]);
      std::int32_t token = of.order.index(firsts[row]);
      if (!weft::detail::is_finite(static_cast<double>(top)))
        token = -1;
      else if (weights.sums)
        token = static_cast<std::int32_t>(
            weights.first_above(row, [&](int64 total) { return weft::detail::drawn_sum(total, texts[row].uniform); }));
      out[row] = {token, top};
    }
  }
};

}  // namespace weft::gpu
