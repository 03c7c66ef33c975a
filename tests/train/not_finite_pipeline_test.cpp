// NaN and infinity on the stages of a pipeline, and under dropout.
#include "poisoned.hpp"
#include "policy/weights_last.hpp"

namespace {

using staged = strategy<mesh<dp, pp>>;
using weft_test::weights_last;

}  // namespace

TEST_CASE("in a pipeline it is found on the stage that has the unit, and every stage comes to know") {
  const degrees two{.pp = 2};
  check_says(error_of_initial<staged>(two, "layers.1.down", {0, not_a_number}),
             "first seen in the forward of layer 1 (rank 1), in its weight layers.1.down");
  check_says(error_of_initial<staged>(two, "layers.0.mlp_norm", {0, 1e30}),
             "first seen in the forward of layer 0 (rank 0), in what it passes on");
  // In the last stage: the gradient is handed back to the first.
  check_says(run_poisoned<staged>({.dp = 2, .pp = 2}, 1, 1, 1, 3, {}).error,
             "first seen in the backward of layer 1 (rank 3), in the gradient of layers.1.down");
  for (const std::string parameter : {"layers.0.down", "embedding"})
    check_says(run_poisoned<strategy<mesh<pp>, weights_last>>(two, 1, 1, 1, 0, {}, infinity, tiny, parameter).error,
               ("(rank 0), in the gradient of " + parameter + ";").c_str());
  const auto first =
      run_poisoned<staged>(two, 1, 1, 1, 0, {.on_non_finite = non_finite::zero}, infinity, tiny, "embedding");
  REQUIRE(first.error.empty());
  CHECK(first.lines.at(0).at("zeroed") == nlohmann::json{{"embedding", 1}});
  check_says(first.lines[0].at("not_finite"),
             "first seen in the backward of embedding (rank 0), in the gradient of embedding");
  // The last stage has a copy of tied embeddings, where the sum over both ends is infinite too; its elements don't
  // count.
  llama_config tied = tiny;
  tied.tied_embeddings = true;
  const auto ends =
      run_poisoned<staged>(two, 1, 1, 1, 0, {.on_non_finite = non_finite::zero}, infinity, tied, "embedding");
  CHECK(ends.lines.at(0).at("zeroed") == nlohmann::json{{"embedding", 1}});
}

TEST_CASE("looking for the place repeats the same dropout masks, and costs none of those to come") {
  using model = gpt2<one>;
  const gpt2_config config{.layers = 2, .hidden = 32, .heads = 4, .vocab = 256, .max_seq = 16, .dropout = 0.2};
  const auto run = [&](bool locate) {
    return run_poisoned<one, model>({}, 3, 1, 1, 0, {.on_non_finite = non_finite::skip, .locate = locate}, not_a_number,
                                    config, "layers.1.down");
  };
  const ended with = run(true), without = run(false);
  REQUIRE(with.error.empty());
  CHECK(with.result.loss == without.result.loss);
  CHECK(with.after == without.after);
}
