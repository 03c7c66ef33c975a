// Weights of few bits: how they lie, and what they stand for. Invariant: the same bits on every backend, which are
// those that bitsandbytes makes of the same codes. Sources: int8 per output channel as in LLM.int8 (Dettmers et al.
// 2022); NF4 with its scales quantised a second time as in QLoRA (Dettmers et al. 2023).
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/core/anywhere.hpp>

namespace weft {

/// Elements from `first` on of a rank's slice of a tensor, in few bits. codes: int8: a signed byte each; nf4: half a
/// byte each, the first in the upper half. levels: nf4: the scale of each 64 elements, as a number of scales[0 ...
/// 255]. scales: int8: of each channel of the whole, 127 steps. nf4: 256 levels, an offset, and what the levels of each
/// 256 times 64 elements of the whole are multiplied by. row: elements of a channel (int8).
struct quantised_slice {
  weight_format format = weight_format::plain;
  placed_slice at{};
  std::int64_t row = 0, first = 0, count = 0;
  const std::uint8_t *codes = nullptr, *levels = nullptr;
  const float* scales = nullptr;

  static constexpr std::int64_t block = 64;                   // elements of one scale of nf4
  static constexpr std::int64_t group = 256 * block;          // elements whose levels have one factor
  static constexpr std::int64_t offset = 256, factors = 257;  // where they lie in nf4's scales
};

namespace detail {

struct nf4_numbers {
  float at[16];
};
/// What the sixteen codes of NF4 stand for, times a scale.
WEFT_ANYWHERE constexpr nf4_numbers numbers_of_nf4() {
  return {{-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
           -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f,
           0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f,
           1.0f}};
}
inline constexpr nf4_numbers nf4_values = numbers_of_nf4();

/// What element i of what codes hold stands for, which is element `at` of the whole, where the host reads them.
inline float decoded(const quantised_slice& q, std::int64_t i, std::int64_t at) {
  if (q.format == weight_format::int8) {
    volatile float scaled = static_cast<float>(static_cast<std::int8_t>(q.codes[i])) * q.scales[at / q.row];
    return scaled * (1.0f / 127);
  }
  const int code = i % 2 == 0 ? q.codes[i / 2] >> 4 : q.codes[i / 2] & 15;
  volatile float product =
      q.scales[q.levels[i / quantised_slice::block]] * q.scales[quantised_slice::factors + at / quantised_slice::group];
  volatile float scale = product + q.scales[quantised_slice::offset];
  return nf4_values.at[code] * scale;
}

/// Bytes of `count` elements' codes and levels.
constexpr std::int64_t code_bytes(weight_format f, std::int64_t count) {
  return f == weight_format::nf4 ? (count + 1) / 2 : count;
}
constexpr std::int64_t level_bytes(weight_format f, std::int64_t count) {
  constexpr std::int64_t block = quantised_slice::block;
  return f == weight_format::nf4 ? (count + block - 1) / block : 0;
}
/// How many scales a whole tensor has.
constexpr std::int64_t scales_of(weight_format f, std::int64_t elements, std::int64_t row) {
  constexpr std::int64_t group = quantised_slice::group;
  return f == weight_format::int8 ? elements / row : quantised_slice::factors + (elements + group - 1) / group;
}

}  // namespace detail
}  // namespace weft
