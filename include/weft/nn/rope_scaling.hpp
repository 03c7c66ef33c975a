// RoPE scalings: the inverse frequencies with which a model trained on short sequences reads longer ones.
// Invariant: numbers only, in double, until they are a table; what turns the vectors is op/rope.hpp. The names are
// those of Hugging Face's rope_scaling.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include <weft/core/error.hpp>
#include <weft/core/finite.hpp>
#include <weft/op/create.hpp>
#include <weft/op/rope.hpp>

namespace weft {

/// Which scaling, each with its source.
enum class rope_kind : std::uint8_t {
  none,     // Su et al. 2021
  linear,   // every angle divided by `factor`: position interpolation, Chen et al. 2023 (arXiv 2306.15595) and
            // kaiokendev
  dynamic,  // theta grows with the sequence once that is longer than the original: "NTK-aware", bloc97 and emozilla
            // 2023
  yarn,     // fast turns kept, slow ones interpolated, a ramp between: Peng et al. 2023 (arXiv 2309.00071)
  llama3,   // the same idea by wavelength: Llama 3.1's released code (Grattafiori et al. 2024)
};

/// A scaling and its numbers; those that a kind doesn't name are not read by it.
struct rope_scaling {
  rope_kind kind = rope_kind::none;
  double factor = 1;                                 // how many times longer than the original
  std::int64_t original_max_seq = 0;                 // tokens the model was trained on; 0: max_seq, but not for dynamic
  double attention_factor = 0;                       // yarn: multiplies cosines and sines; 0: 0.1 ln(factor) + 1
  double beta_fast = 32, beta_slow = 1;              // yarn: turns within the original length where the ramp ends
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3: the same

  friend bool operator==(const rope_scaling&, const rope_scaling&) = default;

  /// With every 0 filled in. Throws weft::failure when a number has no meaning.
  WEFT_LINKED rope_scaling resolved(std::int64_t max_seq) const {
    rope_scaling s = *this;
    using detail::is_finite;
    require(is_finite(s.factor) && s.factor >= 1, "the rope scaling's factor is ", s.factor,
            "; it says how many times longer sequences become, so it is a finite number, at least 1");
    if (s.original_max_seq == 0) s.original_max_seq = max_seq;
    require(s.original_max_seq >= 1, "the rope scaling's original_max_seq is ", s.original_max_seq,
            "; it has to be at least 1");
    require(s.kind != rope_kind::dynamic || s.original_max_seq < max_seq,
            "dynamic rope scaling begins beyond original_max_seq tokens, and a max_seq of ", max_seq,
            " lets no sequence be longer: original_max_seq is what the model was trained on (Hugging Face's "
            "max_position_embeddings), max_seq what it is to read now");
    require(is_finite(s.attention_factor) && s.attention_factor >= 0, "the rope scaling's attention_factor is ",
            s.attention_factor, "; it is a finite number above 0, or 0 for 0.1 ln(factor) + 1");
    if (s.attention_factor == 0) s.attention_factor = s.kind == rope_kind::yarn ? 0.1 * std::log(s.factor) + 1 : 1;
    require(is_finite(s.beta_fast) && s.beta_fast >= s.beta_slow && s.beta_slow > 0, "the rope scaling's beta_fast ",
            s.beta_fast, " and beta_slow ", s.beta_slow,
            " are turns, the first not fewer than the second, both above 0");
    require(is_finite(s.high_freq_factor) && s.high_freq_factor > s.low_freq_factor && s.low_freq_factor > 0,
            "the rope scaling's low_freq_factor ", s.low_freq_factor,
            " is above 0 and below high_freq_factor, which is ", s.high_freq_factor);
    return s;
  }
};

/// What a rope_table is made of.
struct rope_frequencies {
  std::vector<double> inverse;  // [head_dim/2], radians a position
  double attention = 1;         // multiplies cosines and sines, so logits twice
};

namespace detail {

inline double clamped(double x) { return std::min(1.0, std::max(0.0, x)); }

// The pair of dimensions that turns `turns` times within `length` positions, as a real number.
inline double rope_pair_of(double turns, double length, double head_dim, double theta) {
  return head_dim * std::log(length / (turns * 6.283185307179586)) / (2 * std::log(theta));
}

}  // namespace detail

/// Frequencies for sequences of `length` tokens (of which only `dynamic` takes notice). `scaling` is resolved.
WEFT_LINKED rope_frequencies frequencies_of(const rope_scaling& scaling, std::int64_t head_dim, double theta,
                                            std::int64_t length) {
  require(head_dim >= 2 && head_dim % 2 == 0, "rotary positions turn pairs, so head_dim, which is ", head_dim,
          ", has to be even");
  require(detail::is_finite(theta) && theta > 0, "theta of rotary positions is ", theta,
          "; it is a finite number above 0");
  const auto width = static_cast<double>(head_dim), original = static_cast<double>(scaling.original_max_seq);
  const double factor = scaling.factor;
  if (scaling.kind == rope_kind::dynamic && length > scaling.original_max_seq) {
    require(head_dim > 2, "dynamic rope scaling needs a head_dim above 2");
    theta *= std::pow(factor * static_cast<double>(length) / original - (factor - 1), width / (width - 2));
  }
  // As the authors' code has it: the ramp runs over indices of pairs, its ends rounded outwards.
  double low = std::max(std::floor(detail::rope_pair_of(scaling.beta_fast, original, width, theta)), 0.0);
  double high = std::min(std::ceil(detail::rope_pair_of(scaling.beta_slow, original, width, theta)), width - 1);
  if (low == high) high += 0.001;

  rope_frequencies out;
  if (scaling.kind == rope_kind::yarn) out.attention = scaling.attention_factor;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    const double plain = std::pow(theta, -2.0 * static_cast<double>(i) / width), slow = plain / factor;
    double keep = 1;  // share of `plain`, the rest is `slow`
    if (scaling.kind == rope_kind::linear) keep = 0;
    if (scaling.kind == rope_kind::yarn) keep = 1 - detail::clamped((static_cast<double>(i) - low) / (high - low));
    if (scaling.kind == rope_kind::llama3) {
      const double turns = original * plain / 6.283185307179586;
      keep = detail::clamped((turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor));
    }
    out.inverse.push_back(keep * plain + (1 - keep) * slow);
  }
  return out;
}

/// The table by which rope(x, table) turns a tensor of elements T at positions 0 to `positions` - 1, where the
/// backend's tensors are. frequencies.inverse: half as many as the turned dimension's extent.
template <class T, class Backend = typename tensor<T, dims<>>::backend>
rope_table make_rope_table(context& ctx, const rope_frequencies& frequencies, std::int64_t positions) {
  using A = accumulate_t<T>;
  const auto half = static_cast<std::int64_t>(frequencies.inverse.size());
  require(positions >= 1 && half >= 1, "make_rope_table: a table of ", positions, " positions and ", half,
          " frequencies; both are at least 1");
  for (const double f : frequencies.inverse)
    require(detail::is_finite(f), "make_rope_table: a frequency is ", f, "; they are finite numbers, in radians");
  const auto make = [&](double (*turn)(double)) {
    const local_array table = ctx.make(dtype_of<A>, {2, {positions, half}}, memory::buffers);
    detail::write_by_host<Backend, A>(ctx, table, [&](A* out) {
      for (std::int64_t p = 0; p < positions; ++p)
        for (std::int64_t i = 0; i < half; ++i) {
          const double angle = static_cast<double>(p) * frequencies.inverse[static_cast<std::size_t>(i)];
          out[p * half + i] = static_cast<A>(frequencies.attention * turn(angle));
        }
    });
    return table;
  };
  return {make([](double angle) { return std::cos(angle); }), make([](double angle) { return std::sin(angle); }), &ctx};
}

}  // namespace weft
