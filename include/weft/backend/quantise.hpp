// Weights of few bits, made from numbers. Invariant: scales depend on the whole tensor alone, so that every rank makes
// of its slice what another would.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <weft/backend/quantised.hpp>

namespace weft::detail {

/// The 256 levels of a scale: seven powers of ten, each cut twice as fine as the one below it, with both signs, 0 and 1
/// (Dettmers 2016), in order.
WEFT_LINKED std::vector<float> scale_levels() {
  std::vector<float> out{0.0f, 1.0f};
  constexpr double powers[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  for (int i = 0; i < 7; ++i) {
    const int cuts = 1 << i;
    const double step = static_cast<double>((1.0f - 0.1f) / static_cast<float>(cuts));
    const auto cut = [&](int j) {
      return static_cast<float>(j < (cuts + 1) / 2 ? static_cast<double>(0.1f) + step * j : 1.0 - step * (cuts - j));
    };
    for (int j = 0; j < cuts; ++j) {
      const float level = static_cast<float>(powers[i]) * ((cut(j) + cut(j + 1)) / 2);
      out.push_back(level), out.push_back(-level);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// The number of the nearest of n ascending values.
inline std::uint8_t nearest(const float* values, int n, float x) {
  const auto above = static_cast<int>(std::lower_bound(values, values + n, x) - values);
  if (above == n) return static_cast<std::uint8_t>(n - 1);
  const bool below = above > 0 && x - values[above - 1] <= values[above] - x;
  return static_cast<std::uint8_t>(below ? above - 1 : above);
}

/// Scales of a whole tensor whose numbers come in order; then codes of any of its elements.
class quantiser {
 public:
  quantiser(weight_format format, std::int64_t elements, std::int64_t row)
      : format_(format),
        run_(format == weight_format::int8 ? row : quantised_slice::block),
        largest_(static_cast<std::size_t>((elements + run_ - 1) / run_)) {}

  /// Magnitudes up to which codes stand for finite numbers; int8 multiplies by up to 127 on the way.
  float most() const {
    constexpr float largest = std::numeric_limits<float>::max();
    return format_ == weight_format::int8 ? largest / 128 : largest;
  }
  /// Numbers begin ... begin + n - 1 of the whole. Returns the first that is NaN or above most(), or -1.
  std::int64_t see(std::int64_t begin, std::int64_t n, const float* x) {
    for (std::int64_t i = 0; i < n; ++i) {
      if (!(std::abs(x[i]) <= most())) return begin + i;
      float& most = largest_[static_cast<std::size_t>((begin + i) / run_)];
      most = std::max(most, std::abs(x[i]));
    }
    return -1;
  }
  /// After all of them: what quantised_slice calls scales; nf4: and levels() of all blocks of the whole.
  std::vector<float> scales() {
    if (format_ == weight_format::int8) return largest_;
    std::vector<float> out = scale_levels();
    double sum = 0;
    for (const float most : largest_) sum += static_cast<double>(most);
    const auto offset = static_cast<float>(sum / static_cast<double>(largest_.size()));
    out.push_back(offset);
    levels_.resize(largest_.size());
    constexpr std::size_t group = 256;
    for (std::size_t first = 0; first < largest_.size(); first += group) {
      const std::size_t end = std::min(first + group, largest_.size());
      float factor = 0;
      for (std::size_t i = first; i < end; ++i) factor = std::max(factor, std::abs(largest_[i] - offset));
      for (std::size_t i = first; i < end; ++i)
        levels_[i] = nearest(out.data(), 256, factor > 0 ? (largest_[i] - offset) / factor : 0.0f);
      out.push_back(factor);
    }
    return out;
  }
  std::uint8_t level(std::int64_t element) const {
    return levels_[static_cast<std::size_t>(element / quantised_slice::block)];
  }
  /// The code of number x, element `at` of the whole: a signed byte, or 0 ... 15.
  std::uint8_t code(std::int64_t at, float x) const {
    const float most = largest_[static_cast<std::size_t>(at / run_)];
    if (format_ == weight_format::nf4) return most > 0 ? nearest(nf4_values.at, 16, x / most) : std::uint8_t{7};
    const float factor = most > 0 ? 127 / most : 0;  // infinite for the smallest
    const float steps = factor <= std::numeric_limits<float>::max() ? x * factor : x / most * 127;
    return static_cast<std::uint8_t>(static_cast<std::int8_t>(std::nearbyint(std::clamp(steps, -127.0f, 127.0f))));
  }

 private:
  weight_format format_;
  std::int64_t run_;            // elements of one scale
  std::vector<float> largest_;  // magnitudes
  std::vector<std::uint8_t> levels_;
};

}  // namespace weft::detail
