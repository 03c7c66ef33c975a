// Counter-based random numbers: a pure function of (seed, stream, index). Source: Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011), Philox-4x32-10. Invariant: the number at a global index is the same whoever
// asks for it.
#pragma once

#include <weft/core/requirements.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace weft {

/// Names a stream of random numbers: the FNV-1a hash of a tensor's name. `before`: the stream of what stands before it.
constexpr std::uint64_t stream_of(std::string_view name, std::uint64_t before = 0xcbf29ce484222325u) {
  std::uint64_t h = before;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

/// The random numbers of one stream. An index names one 32-bit word; four neighbours share a block.
struct philox {
  std::uint64_t seed = 0, stream = 0;

  /// Four 32-bit words at a counter.
  constexpr std::array<std::uint32_t, 4> block(std::uint64_t counter) const {
    std::uint32_t c0 = std::uint32_t(counter), c1 = std::uint32_t(counter >> 32);
    std::uint32_t c2 = std::uint32_t(stream), c3 = std::uint32_t(stream >> 32);
    std::uint32_t k0 = std::uint32_t(seed), k1 = std::uint32_t(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0, p1 = std::uint64_t{0xCD9E8D57u} * c2;
      const std::uint32_t n0 = std::uint32_t(p1 >> 32) ^ c1 ^ k0, n2 = std::uint32_t(p0 >> 32) ^ c3 ^ k1;
      c1 = std::uint32_t(p1), c3 = std::uint32_t(p0), c0 = n0, c2 = n2;
      k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return {c0, c1, c2, c3};
  }

  constexpr std::uint32_t word(std::uint64_t index) const { return block(index / 4)[index % 4]; }

  /// Uniform in [0, 1), 24 bits.
  constexpr float uniform(std::uint64_t index) const { return static_cast<float>(word(index) >> 8) * 0x1p-24f; }

  /// Four standard normals by Box and Muller, of indices 4 * counter ... 4 * counter + 3.
  std::array<float, 4> normals(std::uint64_t counter) const {
    const auto words = block(counter);
    std::array<float, 4> out;
    for (std::size_t pair = 0; pair < 4; pair += 2) {
      const double u = (static_cast<double>(words[pair]) + 1.0) * 0x1p-32;  // (0, 1]
      const double angle = static_cast<double>(words[pair + 1]) * (6.283185307179586 * 0x1p-32);
      const double radius = std::sqrt(-2.0 * std::log(u));
      out[pair] = static_cast<float>(radius * std::cos(angle));
      out[pair + 1] = static_cast<float>(radius * std::sin(angle));
    }
    return out;
  }
  float normal(std::uint64_t index) const { return normals(index / 4)[index % 4]; }
};

}  // namespace weft
