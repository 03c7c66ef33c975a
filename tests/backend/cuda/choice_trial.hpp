// Tokens that a backend's kernels choose, beside those that the host does: the same, of rows with equal logits,
// infinities and NaN, by every kind of settings.
#pragma once

#include <train/samplings.hpp>

#include <doctest/doctest.h>

#include <weft/core/random.hpp>
#include <weft/memory/arena.hpp>

namespace weft_test {

struct choice_sizes {
  std::int64_t rows, vocab;
};

/// texts, logits and draws of row `row` are those of (seed, row).
template <class Backend, class T>
void check_choices(typename Backend::queue& queue, const choice_sizes& size, const weft::sampling& s,
                   std::uint64_t seed) {
  using namespace weft;
  CAPTURE(size.rows);
  CAPTURE(size.vocab);
  CAPTURE(s.temperature);
  CAPTURE(s.top_k);
  CAPTURE(s.top_p);
  CAPTURE(s.min_p);
  CAPTURE(s.repetition_penalty);
  const philox draws{seed, stream_of("choice")};
  std::uint64_t drawn = 0;
  const auto next = [&](double most) { return most * static_cast<double>(draws.uniform(drawn++)); };
  const detail::choice_rule rule = detail::rule_of(s);
  const auto vocab = static_cast<std::size_t>(size.vocab), rows = static_cast<std::size_t>(size.rows);
  std::vector<T> logits(rows * vocab);
  std::vector<std::vector<std::int32_t>> texts(rows);
  std::vector<detail::choice_of_text> given;
  std::vector<std::int32_t> penalised;
  for (std::size_t row = 0; row < rows; ++row) {
    const bool many_equal = row % 2;
    for (std::size_t i = 0; i < vocab; ++i) {
      const double x = next(12) - 6;
      logits[row * vocab + i] = static_cast<T>(static_cast<accumulate_t<T>>(many_equal ? std::floor(x) : x));
      if (next(1) < 0.05) logits[row * vocab + i] = static_cast<T>(-std::numeric_limits<accumulate_t<T>>::infinity());
    }
    const auto what = static_cast<accumulate_t<T>>(row % 8 == 6 ? NAN : row % 8 == 7 ? INFINITY : 1.0);
    logits[row * vocab + static_cast<std::size_t>(next(static_cast<double>(vocab)))] = static_cast<T>(what);
    if (row % 8 == 5)
      std::fill_n(logits.begin() + static_cast<std::ptrdiff_t>(row * vocab), vocab, static_cast<T>(-INFINITY));
    for (std::size_t i = 0; i < 3 * row; ++i)
      texts[row].push_back(static_cast<std::int32_t>(next(static_cast<double>(vocab))));
    const auto first = static_cast<std::int32_t>(penalised.size());
    for (const std::int32_t t : detail::penalised_tokens(texts[row], s, size.vocab)) penalised.push_back(t);
    const double uniform = row == 0 ? 0 : row == 1 ? 1 - 0x1p-24 : next(1);
    given.push_back({uniform, first, static_cast<std::int32_t>(penalised.size()) - first});
  }
  const memory_source memory = Backend::memory();
  auto* const there = static_cast<T*>(memory.allocate(logits.size() * sizeof(T)));
  queue.upload(logits.data(), there, logits.size() * sizeof(T));
  std::vector<detail::chosen_token> got(rows);
  Backend::choose_tokens(queue, size.rows, size.vocab, there, rule, given.data(), penalised.data(),
                         std::ssize(penalised), got.data());
  queue.synchronize();
  memory.release(there);
  for (std::size_t row = 0; row < rows; ++row) {
    CAPTURE(row);
    const std::span<const T> of = std::span(std::as_const(logits)).subspan(row * vocab, vocab);
    std::int32_t want = -1;
    const detail::weighed_tokens tokens(of, rule, detail::penalised_tokens(texts[row], s, size.vocab));
    if (tokens.says_something()) want = tokens.choose(given[row].uniform);
    CHECK(std::bit_cast<std::uint32_t>(got[row].top) == std::bit_cast<std::uint32_t>(tokens.top()));
    CHECK(got[row].token == want);
  }
}

/// By all settings, in several types, of vocabularies of one part and of several.
template <class Backend>
void check_all_choices(typename Backend::queue& queue) {
  std::uint64_t seed = 1;
  for (const weft::sampling& s : samplings) {
    check_choices<Backend, float>(queue, {8, 5}, s, seed++);
    check_choices<Backend, weft::bf16>(queue, {3, 300}, s, seed++);
    if (s.top_p < 1) check_choices<Backend, float>(queue, {2, 4500}, s, seed++);
  }
  check_choices<Backend, double>(queue, {1, 1}, samplings.back(), seed++);
  check_choices<Backend, weft::fp16>(queue, {1, 2048}, samplings.back(), seed++);
}

}  // namespace weft_test
