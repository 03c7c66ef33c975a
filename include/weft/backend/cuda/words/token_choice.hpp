// The word that chooses tokens from logits. Invariant: the host's choice from the same logits
// (train/sampling.hpp), bit by bit.
#pragma once

#include <algorithm>
#include <bit>

#include <weft/backend/cuda/kernels/token_choice.hpp>
#include <weft/backend/cuda/queue.hpp>

namespace weft::gpu {
namespace detail {

/// Places in one piece of memory, each aligned for whoever sorts or adds up.
struct aligned_places {
  std::size_t bytes = 0;  // of all

  template <class T>
  std::size_t add(int64 count) {
    const std::size_t at = bytes;
    bytes += (static_cast<std::size_t>(count) * sizeof(T) + 255) / 256 * 256;
    return at;
  }
};

}  // namespace detail

template <class Queue>
struct choice_words {
  using queue = Queue;

  /// out[row] = the token of row `row`, by a rule and the row's draw. Tokens are listed in `penalised`, `listed` of
  /// them, each once for a row. Waits until they are there.
  /// logits [rows, vocab], vocab at most 2^22; texts, penalised and out in the host's memory
  template <class T>
  static void choose_tokens(queue& q, std::int64_t rows, std::int64_t vocab, const T* logits, const choice_rule& rule,
                            const choice_of_text* texts, const std::int32_t* penalised, std::int64_t listed,
                            chosen_token* out) {
    const int64 at_once = std::max<int64>(most_keys / vocab, 1);
    for (int64 row = 0; row < rows; row += at_once)
      choose_some(q, std::min(at_once, rows - row), vocab, logits + row * vocab, rule, texts + row, penalised, listed,
                  out + row);
  }

 private:
  static constexpr int64 most_keys = int64{1}
                                     << 22;  // at once: 96 MiB with those that are sorted and the sums, and 32 of CUB's

  static int bits_of(int64 count) { return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count - 1))); }

  template <class T>
  static void choose_some(queue& q, int64 rows, int64 vocab, const T* logits, const choice_rule& rule,
                          const choice_of_text* texts, const std::int32_t* penalised, int64 listed, chosen_token* out) {
    const choice_rows of{rows, vocab, {bits_of(vocab)}};
    const key_bits by{of.order.index_bits, of.order.index_bits + 32 + bits_of(rows)};
    const int64 n = rows * vocab;
    const bool sorts = rule.sorts(), draws = rule.scale != 0;
    const std::size_t beside =
        std::max({q.row_least_bytes(rows, vocab), sorts ? q.template sort_bytes<std::uint64_t>(n, by) : 0,
                  draws ? q.template running_sum_bytes<token_weights>(n) : 0});
    detail::aligned_places at;
    const std::size_t at_keys = at.add<std::uint64_t>(n), at_sorted = at.add<std::uint64_t>(sorts ? n : 0),
                      at_sums = at.add<int64>(draws ? n : 0), at_firsts = at.add<std::uint64_t>(rows),
                      at_last = at.add<std::uint64_t>(rows), at_texts = at.add<choice_of_text>(rows),
                      at_out = at.add<chosen_token>(rows), at_penalised = at.add<std::int32_t>(listed),
                      at_beside = at.add<std::byte>(static_cast<int64>(beside));
    auto* const room = static_cast<std::byte*>(q.scratch(at.bytes));
    auto* const keys = reinterpret_cast<std::uint64_t*>(room + at_keys);
    auto* const sorted = reinterpret_cast<std::uint64_t*>(room + at_sorted);
    auto* const firsts = reinterpret_cast<std::uint64_t*>(room + at_firsts);
    auto* const sums = reinterpret_cast<int64*>(room + at_sums);
    auto* const last = reinterpret_cast<std::uint64_t*>(room + at_last);
    auto* const texts_there = reinterpret_cast<choice_of_text*>(room + at_texts);
    auto* const out_there = reinterpret_cast<chosen_token*>(room + at_out);
    auto* const penalised_there = reinterpret_cast<std::int32_t*>(room + at_penalised);

    q.upload(texts, texts_there, static_cast<std::size_t>(rows) * sizeof(choice_of_text));
    over_elements<std::uint64_t>(q, n, token_keys_kernel<T>{of, logits, keys}, 1);
    if (listed > 0) {
      q.upload(penalised, penalised_there, static_cast<std::size_t>(listed) * sizeof(std::int32_t));
      block_for_each(q, rows, 0, penalise_kernel{of, rule.penalty, texts_there, penalised_there, keys});
    }
    q.row_least(rows, vocab, keys, firsts, room + at_beside, beside);
    const auto add_up = [&](const std::uint64_t* of_keys, const std::uint64_t* kept, bool in_order) {
      q.running_sum(n, token_weights{of, rule, of_keys, firsts, kept, in_order}, sums, room + at_beside, beside);
      return summed_weights{vocab, sums};
    };
    if (sorts) {
      q.sort(keys, sorted, n, by, room + at_beside, beside);
      const summed_weights upto = rule.top_p < 1 ? add_up(sorted, nullptr, true) : summed_weights{vocab, nullptr};
      block_for_each(q, rows, 0, last_kept_kernel{of, rule, sorted, upto, last});
    }
    const summed_weights upto = draws ? add_up(keys, sorts ? last : nullptr, false) : summed_weights{vocab, nullptr};
    block_for_each(q, rows, 0, choose_kernel{of, firsts, upto, texts_there, out_there});
    q.download(out_there, out, static_cast<std::size_t>(rows) * sizeof(chosen_token));
  }
};

}  // namespace weft::gpu
