// Adapters merged into weights in place: the forward is the adapted one, what is taken back leaves the weights' bits of
// before, and what would mix the two up is refused.
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include <weft/io/merge_adapters.hpp>
#include <weft/train/checkpoint.hpp>
#include <weft/train/head_importance.hpp>
#include <weft/weft.hpp>

#include "../said_by.hpp"
#include "../temporary.hpp"

using namespace weft;
using weft_test::said_by;

namespace {

const llama_config small{
    .layers = 2, .hidden = 24, .heads = 4, .kv_heads = 2, .head_dim = 6, .ffn = 36, .vocab = 256, .max_seq = 12};

struct on_queries_and_down : lora<3> {
  static constexpr std::string_view name = "on_queries_and_down";
  static bool adapts_weight(std::string_view w) { return w.ends_with(".query") || w.ends_with(".down"); }
};

std::shared_ptr<const text_corpus> rhyme() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "one two three four five, once I caught a fish alive; ";
  return std::make_shared<const text_corpus>("rhyme", text);
}
const training two_steps{.steps = 2, .batch = 4, .validation_sequences = 4, .print = false};

// The bits of every weight that this rank stores.
template <class Store>
std::map<std::string, std::vector<std::byte>> bits_of(Store& store) {
  std::map<std::string, std::vector<std::byte>> all;
  store.each_stored([&](const stored_parameter& p) {
    std::vector<std::byte>& to = all[p.record.name];
    to.resize(static_cast<std::size_t>(p.weight.bytes()));
    std::memcpy(to.data(), p.weight.data, to.size());
  });
  return all;
}

// Of the held-out text, under the weights as they are.
struct held_out final : training_callback {
  double loss = 0;
  void after_validation(std::int64_t, double l) override { loss = l; }
};
template <class S, class T>
double loss_of(context& ctx, llama<S>& model, T&) {
  pipeline<llama<S>> stages(ctx, model);
  const text_dataset data(ctx, rhyme());
  auto& sums = stages.evaluate(2, [&](int m) { return data.template train<typename llama<S>::ids>(7, m * 4, 4, 12); });
  const loss_sums all = finished<typename pipeline<llama<S>>::loss_tensor>(ctx, sums);
  return all.sum / all.count;
}

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
