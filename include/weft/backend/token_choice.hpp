// The arithmetic by which a token is chosen, for a host and a device alike. Invariant: integers, and doubles of which
// each is rounded once by IEEE 754 (no library's exp, and no product that a compiler could fuse with a sum), so both
// get the same bits; and weights are integers, so their sums are the same in every order.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include <weft/core/anywhere.hpp>
#include <weft/core/finite.hpp>

namespace weft::detail {

/// The rows' vocabulary may have so many tokens, so that sums of their weights are at most 2^62.
inline constexpr std::int64_t most_tokens_to_choose_from = std::int64_t{1} << 22;

/// What of `sampling` a choice depends on.
struct choice_rule {
  double scale = 0;  // log2(e) / temperature; 0: the likeliest token
  std::int64_t top_k = 0;
  double top_p = 1;
  double least = -__builtin_inf();  // log2(min_p)
  double penalty = 1;

  WEFT_ANYWHERE bool sorts() const { return scale != 0 && (top_k > 0 || top_p < 1); }
  WEFT_ANYWHERE std::int64_t most(std::int64_t vocab) const { return top_k > 0 && top_k < vocab ? top_k : vocab; }
};
/// A text whose next token is chosen: its draw, and its tokens that are penalised, [first, first + count) of a list.
struct choice_of_text {
  double uniform = 0;
  std::int32_t first = 0, count = 0;
};
/// What became of it. token: -1 where `top`, the largest logit, isn't finite.
struct chosen_token {
  std::int32_t token = -1;
  float top = 0;
};

/// What rises where logits fall: 0 is NaN's, and equal logits have equal bits.
WEFT_ANYWHERE constexpr std::uint32_t falling_bits(float logit) {
  if (is_nan(static_cast<double>(logit))) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(logit == 0 ? 0.0f : logit);  // of both zeros
  return bits ^ (0x7fffffffu & ((bits >> 31) - 1));                           // all but the sign, where that is 0
}
WEFT_ANYWHERE constexpr float logit_of_falling(std::uint32_t bits) {
  if (bits == 0) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(bits ^ (0x7fffffffu & ((bits >> 31) - 1)));
}

/// How a token of several rows lies in 64 bits: row, logit, index; the order of keys is that of rows, in a row of
/// falling logits, and among equals of indices.
struct token_keys {
  int index_bits = 32;

  WEFT_ANYWHERE constexpr std::uint64_t key(std::int64_t row, float logit, std::int64_t index) const {
    const std::uint64_t above = index_bits == 32 ? 0 : static_cast<std::uint64_t>(row) << (index_bits + 32);
    return above | std::uint64_t{falling_bits(logit)} << index_bits | static_cast<std::uint64_t>(index);
  }
  WEFT_ANYWHERE constexpr float logit(std::uint64_t key) const {
    return logit_of_falling(static_cast<std::uint32_t>(key >> index_bits));
  }
  WEFT_ANYWHERE constexpr std::int32_t index(std::uint64_t key) const {
    return static_cast<std::int32_t>(key & ((std::uint64_t{1} << index_bits) - 1));
  }
};

/// Source: Keskar et al. 2019 (CTRL), with negative logits multiplied, so that the penalty always lowers. What was
/// finite stays so.
WEFT_ANYWHERE constexpr float penalised(float logit, double penalty) {
  const double x = static_cast<double>(logit), y = x > 0 ? x / penalty : x * penalty;
  constexpr double most = std::numeric_limits<float>::max();
  if (!is_finite(x)) return logit;
  return static_cast<float>(y > most ? most : y < -most ? -most : y);
}

/// The logarithm, to base 2, of how likely a token is beside the likeliest. NaN where `top` isn't finite.
WEFT_ANYWHERE constexpr double level_of(float logit, float top, double scale) {
  return (static_cast<double>(logit) - static_cast<double>(top)) * scale;
}

/// The upper half of a product.
WEFT_ANYWHERE constexpr std::uint64_t upper_half(std::uint64_t a, std::uint64_t b) {
  __extension__ typedef unsigned __int128 both;
  return static_cast<std::uint64_t>(static_cast<both>(a) * b >> 64);
}
/// How likely: 2^(40 + level) for levels up to 0, to within 2^-43 of itself, and cut off to a whole number; 0 for NaN.
WEFT_ANYWHERE constexpr std::int64_t weight_of(double level) {
  if (!(level >= -40)) return 0;
  const auto fixed = static_cast<std::int64_t>(level * 0x1p56);
  const int halvings = static_cast<int>(-(fixed >> 56));
  const std::uint64_t part = static_cast<std::uint64_t>(fixed) << 8;  // 2^64 times the fraction
  const std::uint64_t rest = part & (~std::uint64_t{0} >> 4);
  // 2^rest - 1, by Taylor's series: what is left out is below 2^-44.
  std::uint64_t more = 0xa184897c363c4u;
  more = 0x5761ff9e299cc4u + upper_half(more, rest);
  more = 0x276556df749cee5u + upper_half(more, rest);
  more = 0xe35846b82505fc6u + upper_half(more, rest);
  more = 0x3d7f7bff058b1d51u + upper_half(more, rest);
  more = 0xb17217f7d1cf79acu + upper_half(more, rest);
  more = upper_half(more, rest);
  std::uint64_t power = std::uint64_t{1} << 63;  // 2^63 times 2^fraction
  power += upper_half(power, more);
  const auto factor = [&](int bit, std::uint64_t less_1) {  // no branch, which nobody could predict
    power += upper_half(power, less_1 & (0 - (part >> bit & 1)));
  };
  factor(63, 0x6a09e667f3bcc908u);  // 2^(1/2) - 1, ...
  factor(62, 0x306fe0a31b7152deu);
  factor(61, 0x172b83c7d517adcdu);
  factor(60, 0x0b5586cf9890f629u);
  return static_cast<std::int64_t>(power >> (23 + halvings));
}

/// Both below `total`, above 0: the first token at which the sum of weights, in the order of indices, is above the one
/// is drawn; the last that top_p keeps is the first at which their sum in the order of keys is above the other.
WEFT_ANYWHERE constexpr std::int64_t drawn_sum(std::int64_t total, double uniform) {
  const auto sum = static_cast<std::int64_t>(uniform * static_cast<double>(total));
  return sum < total ? sum : total - 1;
}
WEFT_ANYWHERE constexpr std::int64_t kept_sum(std::int64_t total, double top_p) {
  const double least = top_p * static_cast<double>(total);  // which the sum has to reach
  const auto whole = static_cast<std::int64_t>(least);
  const std::int64_t below = static_cast<double>(whole) < least || whole == 0 ? whole : whole - 1;
  return below < total ? below : total - 1;
}

}  // namespace weft::detail
