// Projections that multiply in 8 bits: each of a model's does, and nothing else; the model trains close to the one
// without, and alike on every mesh and under every sharding policy.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <weft/nn/gpt2.hpp>
#include <weft/nn/llama.hpp>
#include <weft/testing/strategy.hpp>

namespace {
using namespace weft;

template <class Sharding, class... More>
using rounded = strategy<mesh<dp, tp>, Sharding, fp64, float8<>, More...>;

const testing::training_task task{
    {.steps = 4, .micro_batches = 2},
    {.layers = 2, .hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6, .ffn = 18, .vocab = 47, .max_seq = 16}};

TEST_CASE("a Llama whose projections multiply in 8 bits: every sharding policy and tp equal one rank") {
  static const auto one = testing::train<rounded<replicated>>({}, task);
  // A rank's scale is of its own slice: numbers far below the largest differ by that.
  const auto equals_one_rank = [&]<class S>(S, const degrees& ranks) {
    for (const std::string& line : testing::disagreements(one, testing::train<S>(ranks, task), 1e-4, 1e-2))
      FAIL_CHECK(line);
  };
  equals_one_rank(rounded<zero1>{}, {.dp = 2});
  equals_one_rank(rounded<zero3, checkpoint_selective>{}, {.dp = 2, .tp = 2});
  equals_one_rank(rounded<zero3, sequence_parallel, checkpoint_full>{}, {.tp = 2});
}

TEST_CASE("it trains close to the one that doesn't, but not alike") {
  const auto losses = []<class S>(S) { return testing::train<S>({}, task).losses; };
  const auto with = losses(rounded<replicated>{}), without = losses(strategy<mesh<dp, tp>, replicated, fp64>{});
  REQUIRE(with.size() == without.size());
  for (std::size_t i = 0; i < with.size(); ++i) {
    CHECK(with[i] == doctest::Approx(without[i]).epsilon(2e-2));
    CHECK(std::fabs(with[i] - without[i]) > 1e-6);
  }
  CHECK(with.back() < with.front());
}

// Counts arrays that are rounded, each of which has its largest number found.
thread_local int roundings = 0;
struct counting_backend : cpu_backend {
  template <reduce Kind, class... Args>
  static void reduce_dims(queue& q, const Args&... args) {
    roundings += Kind == reduce::max;
    cpu_backend::reduce_dims<Kind>(q, args...);
  }
};
template <template <class> class Model, class Form, class Config>
int roundings_of_a_step(const Config& config) {
  roundings = 0;
  testing::train_model<Model<strategy<mesh<dp, tp>, Form, counting_backend>>>({}, config, {.steps = 1});
  return roundings;
}

TEST_CASE("each projection's product, and those of its two gradients, are of rounded operands; no other is") {
  constexpr int layers = 2, operands = 6;
  const llama_config of_llama{.layers = layers, .hidden = 16, .heads = 2, .ffn = 16, .vocab = 32, .max_seq = 16};
  const gpt2_config of_gpt2{.layers = layers, .hidden = 16, .heads = 2, .vocab = 32, .max_seq = 16};
  CHECK(roundings_of_a_step<llama, dense>(of_llama) == 0);
  CHECK(roundings_of_a_step<llama, float8<>>(of_llama) == layers * 7 * operands);
  CHECK(roundings_of_a_step<llama, float8<fused_qkv<>>>(of_llama) == layers * 5 * operands);
  CHECK(roundings_of_a_step<gpt2, float8<>>(of_gpt2) == layers * 6 * operands);
  // A frozen weight has no gradient, and adapters multiply as ever.
  CHECK(roundings_of_a_step<llama, float8<lora<2>>>(of_llama) <= layers * 7 * (operands - 2));
  CHECK(roundings_of_a_step<llama, float8<lora<2>>>(of_llama) > layers * 7 * 2);
}

}  // namespace
