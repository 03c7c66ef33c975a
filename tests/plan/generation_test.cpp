// The plan of a text is that of the run that writes it: bytes by category and calls by collective, on every rank.
#include <doctest/doctest.h>

#include <weft/plan/generation.hpp>
#include <weft/weft.hpp>

#include "plan/run_as_plan.hpp"

using namespace weft;

namespace {

const llama_config bytes{
    .layers = 4, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 56, .vocab = 256, .max_seq = 12, .init_stddev = 0.3};

template <template <class> class Model, class S, class Config>
void check_text(const degrees& wanted, const Config& config) {
  const text_length length{.prompt = 5, .tokens = 10};  // beyond max_seq
  const auto runs = weft_test::run_as_plan<S>(wanted, [&](context& ctx, const auto& begin, const auto& note) {
    Model<S> model(ctx, config);
    model.registry().freeze([](const parameter_record&) { return true; });
    parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(), config_of<typename S::sharding>());
    if constexpr (requires { S::projections::stored_as; })
      store.load_parameters([](const parameter_record& p) -> std::optional<std::vector<float>> {
        if (p.stored.format == weight_format::plain) return {};
        return std::vector<float>(static_cast<std::size_t>(p.global.elements()), 0.01f);
      });
    model.use(store);
    begin();
    const std::string text = generate(model, "a few", {.tokens = length.tokens});
    CHECK(text.size() == 10);
    note();
  });
  for (const rank_plan& run : runs) {
    CAPTURE(run.rank);
    CHECK(weft_test::said_by(plan_generation<Model, S>(config, wanted, length, run.rank)) == weft_test::said_by(run));
  }
}

}  // namespace

TEST_CASE("plan of a text: one rank") {
  check_text<llama, strategy<mesh<dp>>>({}, bytes);
  check_text<gpt2, strategy<mesh<dp>, bf16_mixed>>(
      {}, gpt2_config{.layers = 2, .hidden = 32, .heads = 4, .vocab = 256, .max_seq = 12});
}
TEST_CASE("plan of a text: tensor parallelism, whole and along the sequence") {
  check_text<llama, strategy<mesh<dp, tp>, bf16_mixed>>({.tp = 2}, bytes);
  check_text<llama, strategy<mesh<dp, tp>, sequence_parallel>>({.tp = 2}, bytes);
}
TEST_CASE("plan of a text: more ranks along tp than key and value heads") {
  check_text<llama, strategy<mesh<dp, tp>, zero3, bf16_mixed, shared_kv<>>>({.tp = 4}, bytes);
}
TEST_CASE("plan of a text: the same from weights in 8 bits, on stages") {
  check_text<llama, strategy<mesh<pp, dp, tp>, bf16_mixed, int8<shared_kv<>>>>({.tp = 4, .pp = 2}, bytes);
}
TEST_CASE("plan of a text: weights gathered unit by unit") {
  check_text<llama, strategy<mesh<dp, tp>, zero3>>({.dp = 2, .tp = 2}, bytes);
  llama_config pruned = bytes;  // a cache has other numbers of heads in each layer
  pruned.heads = 8, pruned.kv_heads = 4, pruned.layer_groups = {2, 4, 2, 4};
  check_text<llama, strategy<mesh<dp, tp>, zero3>>({.dp = 2, .tp = 2}, pruned);
}
TEST_CASE("plan of a text: stages in turn, and one rank of each") {
  using S = strategy<mesh<pp, dp>, zero3, bf16_mixed>;
  const degrees wanted{.dp = 2, .pp = 2};
  check_text<llama, S>(wanted, bytes);
  const text_length length{.prompt = 5, .tokens = 3};
  const std::vector<rank_plan> stages = plan_generation_stages<llama, S>(bytes, wanted, length);
  REQUIRE(stages.size() == 2);
  for (int rank = 0; rank < 4; ++rank) {
    const rank_plan one = plan_generation<llama, S>(bytes, wanted, length, rank);
    const rank_plan& of_stage = stages[std::size_t(rank / 2)];
    CAPTURE(rank);
    CHECK(of_stage.rank == rank / 2 * 2);
    CHECK(one.memory.peak == of_stage.memory.peak);
    CHECK(one.peak_in == of_stage.peak_in);
  }
  CHECK(stages[0].memory.peak != stages[1].memory.peak);
  CHECK_THROWS_WITH_AS((plan_generation_stages<llama, S>(bytes, {.tp = 2}, length)), doctest::Contains("tp"), failure);
}

TEST_CASE("plan of a text: any vocabulary, what it has none of, and what it refuses") {
  using S = strategy<mesh<dp, tp>, zero3, bf16_mixed>;
  llama_config large = bytes;
  large.vocab = 1000003;
  const rank_plan p = plan_generation<llama, S>(large, {.dp = 2, .tp = 2}, {.prompt = 3, .tokens = 2}, 3);
  const auto peak = [&](memory c) { return p.memory.peak[static_cast<std::size_t>(c)]; };
  CHECK(peak(memory::parameters) > 2 * 2 * 1000003 * 32 / 4);  // two tables of two bytes an element on four ranks
  CHECK(peak(memory::gradients) == 0);
  CHECK(peak(memory::optimizer) == 0);
  CHECK(table_of(p).find("collectives of the text ") != std::string::npos);
  CHECK_THROWS_WITH_AS((plan_generation<llama, S>(large, {}, {.prompt = 0})),
                       doctest::Contains("a text of 0 tokens is to be continued by 200"), failure);
}
