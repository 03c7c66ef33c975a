// Adapters merged in a model that is only asked, and what is refused: where merging fails nothing is merged, and what
// would mix up merged weights and those of before isn't taken.
#include <cmath>
#include <cstring>

#include <doctest/doctest.h>

#include <weft/io/merge_adapters.hpp>
#include <weft/train/checkpoint.hpp>
#include <weft/train/head_importance.hpp>

#include "../said_by.hpp"
#include "../temporary.hpp"
#include "adapted_model.hpp"

using namespace weft_test;

namespace {
using asked = strategy<mesh<dp, tp>, bf16_mixed, zero3, lora<3>>;
using asked_store = parameter_store<cpu_backend, bf16_mixed>;

// Gives adapters numbers that change what the model says.
void give_adapters(asked_store& store) {
  store.load_parameters([](const parameter_record& p) -> std::optional<std::vector<float>> {
    if (!p.adapter) return {};
    std::vector<float> out(std::size_t(p.global.elements()));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = float(std::int64_t((i * 7 + p.name.size()) % 17) - 8) / 64;
    return out;
  });
}
// A store that throws when a weight is given to it, the one after so many.
struct failing {
  using backend = cpu_backend;
  asked_store& inner;
  int left;

  template <class F>
  void each_stored(F&& f) {
    inner.each_stored(f);
  }
  template <class F>
  void load_parameters(F&& f) {
    inner.load_parameters([&](const parameter_record& p) {
      auto given = f(p);
      require(!given || left-- != 0, "no memory");
      return given;
    });
  }
};
}  // namespace

TEST_CASE("in a model that is only asked, whose adapters are frozen too, merged is adapted") {
  launch<asked>({.dp = 2, .tp = 2}, [](context& ctx) {
    llama<asked> model(ctx, small);
    model.registry().freeze([](const parameter_record&) { return true; });
    asked_store store(ctx, model.registry(), config_of<zero3>());
    model.use(store);
    const double without = loss_of(ctx, model, store);
    give_adapters(store);
    const double adapted = loss_of(ctx, model, store);
    CHECK(std::abs(adapted - without) > 2e-3);
    const auto versions = [&] {
      std::map<std::string, std::uint32_t> all;
      for (const parameter_unit& u : model.registry().units())
        for (const parameter_record& p : u.parameters) all[p.name] = p.live->version;
      return all;
    };
    const auto before = versions();
    const merged_adapters merged(ctx, model, store);
    CHECK(loss_of(ctx, model, store) == doctest::Approx(adapted).epsilon(1e-4));
    // Whatever of them a rank stores.
    for (const auto& [name, version] : versions())
      CHECK((version != before.at(name)) == before.contains(name + ".lora_a"));
  });
}

TEST_CASE("where merging fails nothing is merged, and another model's store isn't taken") {
  launch<asked>({}, [](context& ctx) {
    llama<asked> model(ctx, small), other(ctx, small);
    asked_store store(ctx, model.registry(), config_of<zero3>()), others(ctx, other.registry(), config_of<zero3>());
    give_adapters(store), give_adapters(others);
    store.each_stored([](const stored_parameter& p) {  // a NaN that a conversion would make another one
      const std::uint16_t signalling = 0x7f81;
      if (p.record.name == "layers.1.up") std::memcpy(p.weight.data, &signalling, sizeof signalling);
    });
    const auto before = bits_of(store), others_before = bits_of(others);
    failing some{store, 5};
    CHECK(said_by([&] { merged_adapters(ctx, model, some); }) == "no memory");
    CHECK((bits_of(store) == before));
    CHECK(said_by([&] {
            merged_adapters(ctx, model, others);
          }).find("parameter layers.0.query isn't in the store that it is to be merged in, which is another model's") ==
          0);
    CHECK((bits_of(others) == others_before));
    merged_adapters merged(ctx, model, store);
    CHECK((bits_of(store) != before));
    merged.unmerge();
    CHECK((bits_of(store) == before));
  });
}

TEST_CASE("what can't be merged is refused, and a checkpoint of merged weights isn't taken") {
  using few = strategy<mesh<dp>, fp32, zero3, int8<lora<3>>>;
  CHECK(said_by([] {
          launch<few>({.dp = 2}, [](context& ctx) {
            llama<few> model(ctx, small);
            trainer t(ctx, model);
            merged_adapters merged(ctx, model, t.store());
          });
        }).find("is stored as int8, and an adapter can't be merged into codes: save_merged writes") !=
        std::string::npos);
  using S = strategy<mesh<dp>, fp32, zero3, lora<3>>;
  const weft_test::temporary_folder folder;
  launch<S>({.dp = 2}, [&](context& ctx) {
    llama<S> model(ctx, small);
    trainer t(ctx, model);
    merged_adapters merged(ctx, model, t.store());
    const std::string said = said_by([&] { head_magnitudes(ctx, t.store()); });
    CAPTURE(said);
    CHECK(said.find("head_magnitudes() while parameter layers.") != std::string::npos);
    CHECK(said_by([&] { save_checkpoint(ctx, t, folder / "merged"); }).find("a checkpoint while parameter") !=
          std::string::npos);
    merged.unmerge();
    save_checkpoint(ctx, t, folder / "whole");
  });
}
