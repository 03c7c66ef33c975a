// Runs that end and go on: under the same strategy with the same bits, under any other to rounding.
#include <doctest/doctest.h>

#include <weft/train/checkpoint.hpp>
#include <weft/weft.hpp>

#include "../said_by.hpp"
#include "../temporary.hpp"
#include "small_batches.hpp"

using namespace weft;
using weft_test::said_by;

namespace {

constexpr gpt2_config small{.layers = 4, .hidden = 24, .heads = 6, .vocab = 31, .max_seq = 8, .dropout = 0.1};
constexpr int steps = 6;

// The losses of steps begin + 1 ... of a run of `steps`, each in a run of its own; saves after the step `save_at`.
template <class S, class Optimizer>
std::vector<double> losses(const degrees& ranks, const std::string& load, int begin, const std::string& save,
                           int save_at) {
  std::vector<double> out;
  launch<S>(ranks, [&](context& ctx) {
    gpt2<S> model(ctx, small);
    Optimizer optimizer{};
    trainer t(ctx, model, optimizer);
    if (!load.empty()) load_checkpoint(ctx, t, load);
    const weft_test::small_batches data{&ctx};
    for (int step = begin; step < steps; ++step) {
      const training_result r = t.run(data, {.steps = step + 1,
                                             .begin = step,
                                             .batch = 6,
                                             .micro_batches = 2,
                                             .schedule = {.warmup = 2},
                                             .validation_sequences = 0,
                                             .print = false});
      if (ctx.is_first()) out.push_back(r.loss);
      if (step + 1 == save_at) save_checkpoint(ctx, t, save);
    }
  });
  return out;
}

struct way {
  const char* name;
  degrees ranks;
  std::vector<double> (*run)(const degrees&, const std::string&, int, const std::string&, int);
};

template <class Optimizer>
std::vector<way> ways() {
  using plain = strategy<mesh<dp, tp, pp>, fp64>;
  return {{"one rank", {}, losses<plain, Optimizer>},
          {"dp 3", {.dp = 3}, losses<plain, Optimizer>},
          {"tp 2 x pp 2", {.tp = 2, .pp = 2}, losses<plain, Optimizer>},
          {"zero1, dp 3", {.dp = 3}, losses<strategy<mesh<dp, tp, pp>, fp64, zero1>, Optimizer>},
          {"zero3, dp 3 x tp 2", {.dp = 3, .tp = 2}, losses<strategy<mesh<dp, tp, pp>, fp64, zero3>, Optimizer>}};
}

template <class Optimizer>
void check_pairs() {
  const weft_test::temporary_folder here;
  const auto all = ways<Optimizer>();
  std::vector<std::vector<double>> unbroken;
  for (const way& w : all) unbroken.push_back(w.run(w.ranks, "", 0, here / w.name, 3));
  for (std::size_t from = 0; from < all.size(); ++from)
    for (std::size_t to = 0; to < all.size(); ++to) {
      const std::string saved = all[from].name, resumed = all[to].name;
      CAPTURE(saved);
      CAPTURE(resumed);
      const std::vector<double> rest = all[to].run(all[to].ranks, here / saved, 3, "", 0);
      REQUIRE(rest.size() == 3);
      for (std::size_t i = 0; i < 3; ++i)
        if (from == to)
          CHECK(rest[i] == unbroken[to][i + 3]);
        else
          CHECK(std::abs(rest[i] - unbroken[0][i + 3]) <= 1e-12 * unbroken[0][i + 3]);
    }
}

}  // namespace

TEST_CASE("what one strategy saves, every other goes on from: AdamW") { check_pairs<adamw>(); }
TEST_CASE("what one strategy saves, every other goes on from: Muon and AdamW") { check_pairs<by_shape<muon, adamw>>(); }

TEST_CASE("a loss scale, and the steps that it took, go on") {
  using S = strategy<mesh<dp>, fp16_mixed, zero2>;
  const weft_test::temporary_folder here;
  const auto unbroken = losses<S, adamw>({.dp = 3}, "", 0, here / "c", 3);
  CHECK(losses<S, adamw>({.dp = 3}, here / "c", 3, "", 0) == std::vector(unbroken.begin() + 3, unbroken.end()));
}

TEST_CASE("a checkpoint that doesn't fit is refused with what is amiss") {
  using S = strategy<mesh<dp>, fp64>;
  const weft_test::temporary_folder here;
  const std::string folder = here / "c";
  losses<S, adamw>({}, "", 0, folder, 3);
  const auto said = [&](auto optimizer, std::uint64_t seed, const std::string& name) {
    return said_by([&] {
      launch<S>({.dp = 2},
                [&](context& ctx) {
                  gpt2<S> model(ctx, small);
                  trainer t(ctx, model, optimizer);
                  load_checkpoint(ctx, t, name);
                },
                {.seed = seed});
    });
  };
  const std::uint64_t seed = launch_options{}.seed;
  CHECK(said(adamw{}, seed, folder) == "nothing");
  CHECK(said(adamw{}, seed + 1, folder).find("has to be " + std::to_string(seed + 1) + ", the seed of this launch") !=
        std::string::npos);
  CHECK(said(sgd{}, seed, folder).find("optimizer is \"AdamW\", and has to be \"SGD\", this trainer's") !=
        std::string::npos);
  CHECK(said(by_shape{muon{}, adamw{}}, seed, folder).find("has to be \"Muon beside AdamW\"") != std::string::npos);
  CHECK(said(adamw{}, seed, here / "none").find("none/manifest.json can't be read") != std::string::npos);
  std::filesystem::resize_file(folder + "/state.safetensors", 1000);
  CHECK(said(adamw{}, seed, folder).find("is no sound safetensors file: its header ends at byte") != std::string::npos);
  launch<S>({.dp = 2}, [&](context& ctx) {
    gpt2<S> model(ctx, small);
    trainer t(ctx, model);
    CHECK(said_by([&] { save_checkpoint(ctx, t, folder); }).find("is there already") != std::string::npos);
  });
}
