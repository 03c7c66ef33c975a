// Training on another backend beside the same on the CPU: AdamW, two micro-batches, every other step's gradients
// clipped. Invariant: losses, the gradient's norm, gradients and weights agree within what rounding explains, and a
// second run on the other backend gives the same bits as the first.
#pragma once

#include <cstdlib>
#include <fstream>

#include "small_training.hpp"

namespace weft_test {

/// How far apart two runs may be: losses and norms relative to their size, gradients and weights as a norm over all of
/// them, relative to theirs.
struct tolerance {
  double loss, norm, gradients, weights;
};
// On the CPU, portable code and AVX-512 differ by up to {1e-7, 1e-7, 2e-6, 1e-6} in fp32 and {3e-5, 5e-5, 3e-3, 5e-4}
// in 16 bits. A GPU rounds where the CPU does, but for attention's probabilities, which it may round to 16 bits as
// well.
inline constexpr tolerance of_fp32{1e-6, 1e-5, 2e-5, 1e-5}, of_16_bits{3e-4, 2e-3, 2e-2, 5e-3};

/// How far two runs are apart, in the same terms.
inline tolerance apart(const trained& got, const trained& want) {
  tolerance off{};
  const auto losses = got.array(0), expected = want.array(0);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double by = std::fabs(losses[i] - expected[i]) / expected[i];
    if (!(by <= off.loss) && off.loss == off.loss) off.loss = by;  // the first that isn't a number stays
  }
  const double norm = want.array(1)[0];
  off.norm = std::fabs(got.array(1)[0] - norm) / norm;
  for (const std::size_t first : {2, 3}) {  // gradients, then weights
    double sum = 0, size = 0;
    for (std::size_t k = first; k < want.begins.size(); k += 2) {
      const auto x = got.array(k), y = want.array(k);
      for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]), size += y[i] * y[i];
    }
    CHECK(size > 0);
    (first == 2 ? off.gradients : off.weights) = std::sqrt(sum / size);
  }
  return off;
}

/// A line with these four for the running test case, in the file that WEFT_APART names, if any: tests/gpu.sh sets those
/// of a card beside those of the device on the host.
inline void note(const tolerance& off) {
  const char* const path = std::getenv("WEFT_APART");
  if (!path) return;
  std::ofstream(path, std::ios::app) << doctest::getContextOptions()->currentTest->m_name << '|' << off.loss << '|'
                                     << off.norm << '|' << off.gradients << '|' << off.weights << '\n';
}

inline void check_near(const trained& got, const trained& want, const tolerance& allowed) {
  REQUIRE(got.begins == want.begins);
  REQUIRE(got.bits.size() == want.bits.size());
  REQUIRE(got.array(0).size() == steps);
  CHECK(got.skipped == want.skipped);
  const tolerance off = apart(got, want);
  note(off);
  CHECK(off.loss <= allowed.loss);
  CHECK(off.norm <= allowed.norm);
  CHECK(off.gradients <= allowed.gradients);
  CHECK(off.weights <= allowed.weights);
}

/// Every rank of such a mesh.
template <class Backend, template <class> class Model, class Mesh, class... Policies, class Config>
void check_ranks_beside_cpu(const weft::degrees& degrees, const Config& config, const tolerance& allowed,
                            int skipped = 0) {
  using on_cpu = Model<weft::strategy<Mesh, Policies...>>;
  using on_other = Model<weft::strategy<Mesh, Policies..., Backend>>;
  const auto there = train<on_other>(degrees, config, weft::adamw{}),
             want = train<on_cpu>(degrees, config, weft::adamw{});
  REQUIRE(there[0].bits.size() > 1000);
  for (std::size_t rank = 0; rank < want.size(); ++rank) {
    CAPTURE(rank);
    CHECK(there[rank].skipped == skipped);
    check_near(there[rank], want[rank], allowed);
  }
  CHECK((train<on_other>(degrees, config, weft::adamw{}) == there));
}
template <class Backend, template <class> class Model, class... Policies, class Config>
void check_beside_cpu(const Config& config, const tolerance& allowed, int skipped = 0) {
  check_ranks_beside_cpu<Backend, Model, weft::mesh<weft::dp>, Policies...>({}, config, allowed, skipped);
}

}  // namespace weft_test
