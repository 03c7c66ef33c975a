// Adapters merged into weights in place: the forward is the adapted one, and what is taken back leaves the weights'
// bits of before.
#include <cmath>

#include <doctest/doctest.h>

#include <weft/io/merge_adapters.hpp>

#include "../said_by.hpp"
#include "adapted_model.hpp"

using namespace weft_test;

namespace {

struct on_queries_and_down : lora<3> {
  static constexpr std::string_view name = "on_queries_and_down";
  static bool adapts_weight(std::string_view w) { return w.ends_with(".query") || w.ends_with(".down"); }
};

const training two_steps{.steps = 2, .batch = 4, .validation_sequences = 4, .print = false};

template <class S>
void merges(const degrees& ranks, double rounding) {
  launch<S>(ranks, [&](context& ctx) {
    llama<S> model(ctx, small);
    trainer t(ctx, model, adamw{.lr = 3e-2});
    const double without = loss_of(ctx, model, t);
    const training_result first = t.run(text_dataset(ctx, rhyme()), two_steps);
    const auto before = bits_of(t.store());
    const double adapted = loss_of(ctx, model, t);
    CHECK(std::abs(adapted - without) > 10 * rounding);  // the adapters do something
    double unmerged = 0;
    {
      merged_adapters merged(ctx, model, t.store());
      CHECK(loss_of(ctx, model, t) == doctest::Approx(adapted).epsilon(rounding));
      bool differs = false;
      for (const auto& [name, bits] : bits_of(t.store())) differs = differs || bits != before.at(name);
      CHECK(differs);
      CHECK(said_by([&] { merged_adapters(ctx, model, t.store()); }).find("has its adapter merged into it already") !=
            std::string::npos);
      CHECK(said_by([&] { t.run(text_dataset(ctx, rhyme()), two_steps); }).find("a step while parameter layers.") == 0);
      CHECK(said_by([&] {
              t.store().load_parameters([](const parameter_record&) { return std::optional<std::vector<float>>(); });
            }).find("load_parameters() while parameter") == 0);
      merged.unmerge();
      CHECK((bits_of(t.store()) == before));
      unmerged = loss_of(ctx, model, t);
      CHECK(unmerged == adapted);
      merged.unmerge();
    }
    { const merged_adapters again(ctx, model, t.store()); }
    CHECK((bits_of(t.store()) == before));
    CHECK(loss_of(ctx, model, t) == adapted);
    // It trains on from there.
    const training_result next = t.run(text_dataset(ctx, rhyme()), two_steps);
    CHECK(next.loss < first.first_loss);
  });
}

}  // namespace

TEST_CASE("merged and taken back, on every mesh and under every sharding policy") {
  // In fp64 merged weights are rounded once in 1e-16, and so are the losses of 20 operators; in bf16 once in 4e-3.
  merges<strategy<mesh<dp, pp, tp>, fp64, lora<3>>>({}, 1e-12);
  merges<strategy<mesh<dp, pp, tp>, fp64, zero3, lora<3>>>({.dp = 2, .tp = 2}, 1e-12);
  merges<strategy<mesh<dp, pp, tp>, fp64, zero1, lora<3>>>({.dp = 4}, 1e-12);
  merges<strategy<mesh<dp, pp, tp>, fp64, zero2, sequence_parallel, fused_qkv<lora<3>>>>({.dp = 2, .pp = 2}, 1e-12);
  merges<strategy<mesh<dp, pp, tp>, fp64, zero3, checkpoint_full, shared_kv<on_queries_and_down>>>({.tp = 4}, 1e-12);
  merges<strategy<mesh<dp, fsdp, tp>, fp64, hybrid, lora<3>>>(degrees{.dp = 2}.with<fsdp>(2), 1e-12);
}

TEST_CASE("merged in bf16: weights' bits come back") {
  merges<strategy<mesh<dp, tp>, bf16_mixed, zero3, lora<3>>>({.dp = 2, .tp = 2}, 4e-3);
}
