// The choice of a token from each row of logits, as kernel bodies: keys of all tokens (token_choice.hpp), which are
// sorted between two of these kernels; the largest, and sums of weights, of parts of a row by a block each; then the
// place where a row's sum comes to a number, by a block. Invariant: sums are of integers, so no order matters.
#pragma once

#include <weft/backend/cuda/kernels/reduce.hpp>
#include <weft/backend/token_choice.hpp>

namespace weft::gpu {

using weft::detail::choice_of_text;
using weft::detail::choice_rule;
using weft::detail::chosen_token;
using weft::detail::token_keys;

/// The sizes of rows that tokens are chosen from.
struct choice_rows {
  static constexpr int64 part_tokens = 2048;
  int64 rows, vocab;
  token_keys order;

  WEFT_ANYWHERE int64 parts() const { return (vocab + part_tokens - 1) / part_tokens; }
  WEFT_ANYWHERE int64 end_of(int64 part) const {
    return (part + 1) * part_tokens < vocab ? (part + 1) * part_tokens : vocab;
  }
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
      keys[i] = of.order.key(i / of.vocab, logit, i % of.vocab);
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

/// The least of a block's numbers. scratch: one of them a warp.
template <class Block>
WEFT_ON_DEVICE std::uint64_t block_least(Block& block, std::uint64_t value, std::uint64_t* scratch) {
  value = warp_reduce<reduce::min>(block, value);
  if (block.lane() == 0) scratch[block.warp()] = value;
  block.sync();
  std::uint64_t least = scratch[0];
  for (int w = 1; w < block.warps(); ++w) least = join<reduce::min>(least, scratch[w]);
  block.sync();
  return least;
}

/// firsts [rows, parts]: the first key of each part of a row. A block takes a part.
struct first_keys_kernel {
  choice_rows of;
  const std::uint64_t* keys;
  std::uint64_t* firsts;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const int64 parts = of.parts();
    for (int64 task = block.index(); task < of.rows * parts; task += block.blocks()) {
      const int64 row = task / parts, part = task % parts;
      std::uint64_t least = ~std::uint64_t{0};
      for (int64 i = part * of.part_tokens + block.thread(); i < of.end_of(part); i += block.threads())
        least = join<reduce::min>(least, keys[row * of.vocab + i]);
      least = block_least(block, least, block.template shared<std::uint64_t>());
      if (block.thread() == 0) firsts[task] = least;
    }
  }
};

/// The weights of a row's tokens: `keys` in the order of indices, of which those up to the row's `last` are kept, and
/// by min_p; or, where there is no `last`, in their own order, of which the first are kept, as top_k says.
struct token_weights {
  choice_rows of;
  choice_rule rule;
  const std::uint64_t *keys, *firsts, *last;  // [rows, vocab], [rows, parts], [rows] or null
  bool sorted;

  /// The first of a row's keys, for all threads of a block.
  template <class Block>
  WEFT_ON_DEVICE std::uint64_t first(Block& block, int64 row) const {
    std::uint64_t least = ~std::uint64_t{0};
    for (int64 i = block.thread(); i < of.parts(); i += block.threads())
      least = join<reduce::min>(least, firsts[row * of.parts() + i]);
    return block_least(block, least, block.template shared<std::uint64_t>());
  }
  WEFT_ON_DEVICE float logit(std::uint64_t key) const { return of.order.logit(key); }
  WEFT_ON_DEVICE int64 weight(int64 row, int64 i, float top) const {
    const std::uint64_t key = keys[row * of.vocab + i];
    const double level = weft::detail::level_of(logit(key), top, rule.scale);
    if (sorted) return i < rule.most(of.vocab) ? weft::detail::weight_of(level) : 0;
    if ((last && key > last[row]) || level < rule.least) return 0;
    return weft::detail::weight_of(level);
  }
};

/// sums [rows, parts]: of each part's weights. A block takes a part.
struct part_weights_kernel {
  token_weights of;
  int64* sums;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const int64 parts = of.of.parts();
    for (int64 task = block.index(); task < of.of.rows * parts; task += block.blocks()) {
      const int64 row = task / parts, part = task % parts;
      const float top = of.logit(of.first(block, row));
      int64 sum = 0;
      for (int64 i = part * of.of.part_tokens + block.thread(); i < of.of.end_of(part); i += block.threads())
        sum += of.weight(row, i, top);
      sum = block_sum(block, sum, block.template shared<int64>());
      if (block.thread() == 0) sums[task] = sum;
    }
  }
};

/// Where the sums of a row's weights first come above a number. A block takes a row.
struct weighed_place {
  token_weights of;
  const int64* sums;  // [rows, parts]

  /// Shared memory.
  static constexpr std::size_t shared_bytes(int threads) {
    return (static_cast<std::size_t>(threads) + 2) * sizeof(int64);
  }

  /// number(total), below the total, is the one. All threads of the block get the place.
  template <class Block, class Number>
  WEFT_ON_DEVICE int64 find(Block& block, int64 row, float top, const Number& number) const {
    const int64 parts = of.of.parts();
    const place part = first_above(
        block, parts, [&](int64 i) { return sums[row * parts + i]; }, number);
    const int64 begin = part.at * of.of.part_tokens;
    const place token = first_above(
        block, of.of.end_of(part.at) - begin, [&](int64 i) { return of.weight(row, begin + i, top); },
        [&](int64) { return part.left; });
    return begin + token.at;
  }

 private:
  struct place {
    int64 at, left;  // of the number, behind those before
  };
  // Each thread adds up a run of neighbours, then the block the runs, up to each; one thread has the place in its run.
  template <class Block, class Weight, class Number>
  WEFT_ON_DEVICE static place first_above(Block& block, int64 n, const Weight& weight, const Number& number) {
    int64* const upto = block.template shared<int64>();
    const int t = block.thread(), threads = block.threads();
    const int64 each = (n + threads - 1) / threads, begin = t * each < n ? t * each : n;
    const int64 end = begin + each < n ? begin + each : n;
    int64 sum = 0;
    for (int64 i = begin; i < end; ++i) sum += weight(i);
    upto[t] = sum;
    block.sync();
    for (int step = 1; step < threads; step *= 2) {
      const int64 before = t >= step ? upto[t - step] : 0;
      block.sync();
      upto[t] += before;
      block.sync();
    }
    const int64 wanted = number(upto[threads - 1]);
    int64 before = upto[t] - sum;
    if (before <= wanted && wanted < upto[t]) {
      int64 i = begin;
      for (int64 next = weight(i); before + next <= wanted; next = weight(++i)) before += next;
      upto[threads] = i;
      upto[threads + 1] = wanted - before;
    }
    block.sync();
    const place out{upto[threads], upto[threads + 1]};
    block.sync();
    return out;
  }
};

/// last [rows]: the key of the last token that top_k and top_p keep; keys are sorted, and sums null without top_p.
struct last_kept_kernel {
  weighed_place place;
  std::uint64_t* last;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const token_weights& of = place.of;
    for (int64 row = block.index(); row < of.of.rows; row += block.blocks()) {
      const std::uint64_t* const keys = of.keys + row * of.of.vocab;
      const float top = of.logit(keys[0]);
      int64 at = of.rule.most(of.of.vocab) - 1;
      if (place.sums && weft::detail::is_finite(static_cast<double>(top)))
        at = place.find(block, row, top, [&](int64 total) { return weft::detail::kept_sum(total, of.rule.top_p); });
      if (block.thread() == 0) last[row] = keys[at];
    }
  }
};

/// out [rows]: the tokens; sums are null where it is the likeliest.
struct choose_kernel {
  weighed_place place;
  const choice_of_text* texts;  // [rows]
  chosen_token* out;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const token_weights& of = place.of;
    for (int64 row = block.index(); row < of.of.rows; row += block.blocks()) {
      const std::uint64_t first = of.first(block, row);
      const float top = of.logit(first);
      std::int32_t token = -1;
      if (weft::detail::is_finite(static_cast<double>(top)))
        token =
            place.sums
                ? static_cast<std::int32_t>(place.find(
                      block, row, top, [&](int64 total) { return weft::detail::drawn_sum(total, texts[row].uniform); }))
                : of.of.order.index(first);
      if (block.thread() == 0) out[row] = {token, top};
    }
  }
};

}  // namespace weft::gpu
