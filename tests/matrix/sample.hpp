// A fixed sample of the matrix for every run of the tests: of each model in two precisions, every seventh strategy, on
// meshes that move along with it. Invariant: every value of every axis occurs, which is asserted here.
#pragma once

#include <doctest/doctest.h>

#include "../sample.hpp"
#include "sweep.hpp"

namespace matrix {

constexpr int sampled_units = 4;  // pairs of model and precision
constexpr bool in_sample(int unit, int index) { return index % 7 == 2 * unit % 7; }
/// The strategies of a unit that the sample takes; under a sanitizer the first of them alone.
template <int Unit>
struct sampled {
  static constexpr bool takes(int index) { return in_sample(Unit, index) && (!weft_test::sanitized || index < 7); }
};

constexpr bool all_values_occur() {
  constexpr int c = count_of<checkpointings>, b = count_of<betweens>, s = count_of<shardings>;
  bool sharding[s] = {}, checkpointing[c] = {}, between[b] = {}, all = true;
  const auto visit = [&](int unit, int index) {
    if (in_sample(unit, index)) sharding[index / b / c] = checkpointing[index / b % c] = between[index % b] = true;
  };
  for (int unit = 0; unit < sampled_units; ++unit)
    for (int i = 0; i < strategies; ++i) visit(unit, i);
  for (const bool x : sharding) all &= x;
  for (const bool x : checkpointing) all &= x;
  for (const bool x : between) all &= x;
  return all;
}
static_assert(all_values_occur(), "the sample leaves out a value of an axis: change its stride");

template <template <class> class Model, class Precision, int Unit>
void check_sample() {
  for (const entry& e : entries<Model, Precision>(sampled<Unit>{})) {
    const std::size_t n = e.meshes.size(),
                      stride = (weft_test::everything() ? 4u : 8u) * std::size_t(weft_test::sample_stride());
    for (std::size_t i = 0; i < std::max<std::size_t>(2, n / stride); ++i) {
      const degrees& mesh = e.meshes[(static_cast<std::size_t>(e.index) * 5 + 7 + i * stride) % n];
      const verdict v = e.run(mesh);
      CAPTURE(std::string(e.sharding));
      CAPTURE(std::string(e.checkpointing));
      CAPTURE(e.sequence_parallel);
      CAPTURE(name_of(mesh));
      CAPTURE(v.legal);
      CAPTURE(v.refusal);
      CAPTURE(v.off.loss);
      CAPTURE(v.off.first);
      CAPTURE(v.off.last);
      CHECK(v.good);
    }
  }
}

}  // namespace matrix
