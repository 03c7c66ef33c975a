// Checkpoints of runs whose frozen weights are stored in few bits: codes, levels and scales go through the folder as
// they are, from any mesh to any other; and become numbers in a folder of Hugging Face's, with adapters merged.
#include <cmath>
#include <map>
#include <mutex>

#include <doctest/doctest.h>

#include <weft/io/adapters.hpp>
#include <weft/train/convert_checkpoint.hpp>
#include <weft/weft.hpp>

#include "../said_by.hpp"
#include "../temporary.hpp"
#include "small_batches.hpp"

using namespace weft;
using weft_test::said_by;

namespace {

constexpr llama_config small{
    .layers = 2, .hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 32, .ffn = 128, .vocab = 31, .max_seq = 8};
constexpr int steps = 4;

struct run {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> weights;  // at the end, by the whole's index
};

// Steps begin + 1 ... of a run, from a folder or from numbers; saved after the second.
template <class S>
run trained(const degrees& ranks, const std::string& load, int begin, const std::string& save) {
  run out;
  std::mutex lock;
  launch<S>(ranks, [&](context& ctx) {
    llama<S> model(ctx, small);
    trainer t(ctx, model, adamw{.lr = 1e-2});
    if (!load.empty())
      load_checkpoint(ctx, t, load);
    else
      t.store().load_parameters([](const parameter_record& p) -> std::optional<std::vector<double>> {
        if (p.adapter) return {};
        std::vector<double> x;
        for (std::int64_t i = 0; i < p.global.elements(); ++i)
          x.push_back(std::sin(static_cast<double>(i * 7 + static_cast<std::int64_t>(p.name.size()))) / 8);
        return x;
      });
    const weft_test::small_batches data{&ctx};
    for (int step = begin; step < steps; ++step) {
      const training_result r = t.run(data, {.steps = step + 1,
                                             .begin = step,
                                             .batch = 12,
                                             .micro_batches = 2,
                                             .schedule = {.warmup = 2},
                                             .validation_sequences = 0,
                                             .print = false});
      if (ctx.is_first()) out.losses.push_back(r.loss);
      if (step != 1 || save.empty()) continue;
      save_checkpoint(ctx, t, save);
      save_merged(ctx, model, t.store(), save + " merged", dtype::f64);
    }
    t.store().each_parameter([&](const parameter_record& p, auto, auto w) {
      const std::lock_guard guard(lock);
      auto& all = out.weights[p.name];
      all.resize(static_cast<std::size_t>(p.global.elements()));
      for (std::int64_t i = 0; i < p.local.elements(); ++i)
        if (const std::int64_t at = p.at.global_index(i); at >= 0) all[static_cast<std::size_t>(at)] = w[i];
    });
  });
  return out;
}

// Whether converting a checkpoint gives what its trainer merged, up to the last bit of a product and sum that the
// compiler may fuse.
void check_converted(const std::string& checkpoint) {
  checkpoint_to_pretrained(checkpoint, checkpoint + " converted", dtype::f64);
  const safetensors merged(checkpoint + " merged"), converted(checkpoint + " converted");
  REQUIRE(merged.tensors().size() == converted.tensors().size());
  int numbers = 0, others = 0;
  for (const auto& [name, one] : merged.tensors()) {
    const mapped_tensor* const other = converted.find(name);
    REQUIRE(other);
    REQUIRE(other->entry->shape == one.entry->shape);
    for (std::uint64_t at = 0; at < one.entry->end - one.entry->begin; at += sizeof(double), ++numbers) {
      double a, b;
      std::memcpy(&a, one.data + at, sizeof a), std::memcpy(&b, other->data + at, sizeof b);
      others += !(std::abs(a - b) <= 1e-15);
    }
  }
  CHECK(others == 0);
  CHECK(numbers > 50'000);
  CHECK(read_file(checkpoint + " merged/config.json") == read_file(checkpoint + " converted/config.json"));
}

template <template <class> class Few>
void check_pairs() {
  using replicate_all = strategy<mesh<dp, pp, tp>, fp64, Few<lora<3, 6>>>;
  using shard_all = strategy<mesh<dp, pp, tp>, fp64, zero3, Few<lora<3, 6>>>;
  struct way {
    const char* name;
    degrees ranks;
    run (*go)(const degrees&, const std::string&, int, const std::string&);
  };
  const way ways[] = {{"one rank", {}, trained<replicate_all>},
                      {"tp 2 x pp 2", {.tp = 2, .pp = 2}, trained<replicate_all>},
                      {"zero3, dp 3", {.dp = 3}, trained<shard_all>},
                      {"zero3, dp 2 x tp 2", {.dp = 2, .tp = 2}, trained<shard_all>}};
  const weft_test::temporary_folder here;
  std::vector<run> unbroken;
  for (const way& w : ways) unbroken.push_back(w.go(w.ranks, "", 0, here / w.name));
  for (const way& w : ways) check_converted(here / w.name);
  for (const way& from : ways)
    for (std::size_t to = 0; to < std::size(ways); ++to) {
      const std::string saved = from.name, resumed = ways[to].name;
      CAPTURE(saved);
      CAPTURE(resumed);
      const run rest = ways[to].go(ways[to].ranks, here / saved, 2, "");
      REQUIRE(rest.losses.size() == 2);
      for (std::size_t i = 0; i < 2; ++i)
        if (saved == resumed)
          CHECK(rest.losses[i] == unbroken[to].losses[i + 2]);
        else
          CHECK(std::abs(rest.losses[i] - unbroken[0].losses[i + 2]) <= 1e-11 * unbroken[0].losses[i + 2]);
      int frozen = 0;
      for (const auto& entry : rest.weights) {
        if (entry.first.find(".lora_") != std::string::npos) continue;
        CHECK(entry.second == unbroken[0].weights.at(entry.first));
        ++frozen;
      }
      CHECK(frozen > 14);
    }
}

}  // namespace

TEST_CASE("nf4: what one mesh saves, every other goes on from, codes bit by bit") { check_pairs<nf4>(); }
TEST_CASE("int8: the same") { check_pairs<int8>(); }

TEST_CASE("a checkpoint of another format is refused, and so is a run without numbers") {
  using few = strategy<mesh<dp>, fp64, nf4<lora<3>>>;
  using numbers = strategy<mesh<dp>, fp64, lora<3>>;
  const weft_test::temporary_folder here;
  trained<few>({}, "", 0, here / "few");
  trained<numbers>({}, "", 0, here / "numbers");
  CHECK(said_by([&] {
          trained<numbers>({}, here / "few", 2, "");
        }).find("stored as nf4, and this strategy stores it as plain") != std::string::npos);
  CHECK(said_by([&] {
          trained<few>({}, here / "numbers", 2, "");
        }).find("stored as plain, and this strategy stores it as nf4") != std::string::npos);
  int refused = 0;
  launch<strategy<mesh<dp>, fp64, zero3, nf4<lora<3>>>>({.dp = 2}, [&](context& ctx) {  // all but one
    using S = strategy<mesh<dp>, fp64, zero3, nf4<lora<3>>>;
    llama<S> model(ctx, small);
    trainer t(ctx, model);
    t.store().load_parameters([](const parameter_record& p) -> std::optional<std::vector<double>> {
      if (p.adapter || p.name == "layers.0.query") return {};
      return std::vector<double>(static_cast<std::size_t>(p.global.elements()), 0.5);
    });
    const std::string said = said_by([&] { save_checkpoint(ctx, t, here / "part"); });
    if (ctx.is_first())
      refused += said.find("layers.0.query is stored as nf4, and has no numbers") != std::string::npos;
  });
  CHECK(refused == 1);
  CHECK(!std::filesystem::exists(here / "part"));
  // Numbers without an optimizer are stored in few bits by the trainer that begins with them.
  checkpoint_to_pretrained(here / "few", here / "folder");
  pretrained_to_checkpoint(here / "folder", here / "beginning");
  CHECK(said_by([&] { trained<few>({}, here / "beginning", 2, ""); }) == "nothing");
  const auto with = [&](auto&& change) {  // the manifest of "few"
    nlohmann::json manifest = read_json(here / "few/manifest.json");
    change(manifest);
    write_file(here / "few/manifest.json", manifest.dump());
    return said_by([&] { checkpoint_to_pretrained(here / "few", here / "folder"); });
  };
  CHECK(with([](auto& m) { m["model"]["num_hidden_layers"] = 1; }).find("has weights of parameter \"layers.1.") !=
        std::string::npos);
  CHECK(with([](auto& m) {
          m["model"]["num_hidden_layers"] = 2, m["model"]["intermediate_size"] = 64;
        }).find("has parameter layers.0.gate in few bits, and not 2048 bytes as tensor codes/layers.0.gate") !=
        std::string::npos);
  CHECK(with([](auto& m) {
          m["model"]["intermediate_size"] = 128, m.erase("adapters");
        }).find("has adapters beside weights, layers.0.query.lora_a for one, and its manifest.json doesn't say") !=
        std::string::npos);
  const std::string none = said_by([] {
    launch<few>({}, [](context& ctx) {
      llama<few> model(ctx, small);
      trainer t(ctx, model);
      t.run(weft_test::small_batches{&ctx}, {.steps = 1, .batch = 2, .validation_sequences = 0, .print = false});
    });
  });
  CHECK(none.find("parameter layers.0.query is stored as nf4, and has no numbers yet") != std::string::npos);
}
