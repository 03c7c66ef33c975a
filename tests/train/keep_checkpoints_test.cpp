// Checkpoints while a run goes on, callbacks, and runs that end early.
#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>

#include <doctest/doctest.h>

#include <weft/train/early_stop.hpp>
#include <weft/train/keep_checkpoints.hpp>
#include <weft/weft.hpp>

#include "../temporary.hpp"
#include "small_batches.hpp"

using namespace weft;

namespace {

using S = strategy<mesh<dp, tp>, fp64, zero3>;
constexpr gpt2_config small{.layers = 2, .hidden = 24, .heads = 6, .vocab = 31, .max_seq = 8, .dropout = 0.1};

// What a test does after steps.
struct after : training_callback {
  explicit after(std::function<std::string(std::int64_t)> what) : does(std::move(what)) {}
  std::string after_step(const step_report& r) override { return does(r.step); }
  std::function<std::string(std::int64_t)> does;
};

struct told_losses : training_callback {
  std::vector<double> all;
  std::string after_step(const step_report& r) override {
    all.push_back(r.loss);
    return {};
  }
};

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// A run of `steps` on two ranks that goes on from the newest checkpoint in `folder`, if there is one, and saves there.
// What `extra` makes is called before the saves.
template <class Strategy = S>
std::vector<double> run(std::int64_t steps, checkpoint_rule rule, const degrees& ranks = {.dp = 2},
                        std::function<std::string(context&, std::int64_t)> extra = nullptr,
                        training_result* result = nullptr) {
  std::vector<double> losses;
  launch<Strategy>(ranks, [&](context& ctx) {
    gpt2<Strategy> model(ctx, small);
    trainer t(ctx, model);
    if (!detail::checkpoints_in(rule.folder).empty()) load_checkpoint(ctx, t, newest_checkpoint(rule.folder));
    keep_checkpoints saves(ctx, t, rule);
    told_losses told;
    after does([&](std::int64_t step) { return extra ? extra(ctx, step) : std::string(); });
    const training_result r = t.run(weft_test::small_batches{&ctx}, {.steps = steps,
                                                                     .begin = t.state().batches,
                                                                     .batch = 6,
                                                                     .validation_sequences = 0,
                                                                     .print = false,
                                                                     .callbacks = {&told, &does, &saves}});
    if (!ctx.is_first()) return;
    losses = told.all;
    if (result) *result = r;
  });
  return losses;
}

}  // namespace

TEST_CASE("the newest checkpoints stay, each k-th stays, and the end has one") {
  const weft_test::temporary_folder here;
  run(9, {.folder = here.path(), .every = 2, .keep = 2, .keep_every = 4});
  CHECK(names_in(here.path()) == std::vector<std::string>{"step-00000004", "step-00000008", "step-00000009"});
  std::filesystem::create_directories(here / "step-00000010");  // somebody's, with nothing in it
  CHECK(newest_checkpoint(here.path()) == here / "step-00000009");
  CHECK(names_in(here / "step-00000004") == std::vector<std::string>{"manifest.json", "state.safetensors"});
}

TEST_CASE("a run that ends early and goes on has the bits of the unbroken one, whatever it is asked meanwhile") {
  const weft_test::temporary_folder here;
  const std::vector<double> unbroken = run(8, {.folder = here / "whole", .every = 3});
  REQUIRE(unbroken.size() == 8);
  training_result ended;
  const auto enough = [](context&, std::int64_t step) { return std::string(step == 4 ? "enough is known" : ""); };
  std::vector<double> parts = run(8, {.folder = here / "parts", .every = 3}, {.dp = 2}, enough, &ended);
  CHECK(ended.ended == "enough is known");
  CHECK(ended.steps == 4);
  CHECK(newest_checkpoint(here / "parts") == here / "parts/step-00000004");
  for (const double loss : run(8, {.folder = here / "parts", .every = 3}, {.dp = 2}, nullptr, &ended))
    parts.push_back(loss);
  CHECK(ended.ended == "its last step is done");
  CHECK(parts == unbroken);
  // On other ranks, from the same place.
  std::filesystem::remove_all(here / "parts/step-00000008");
  CHECK(newest_checkpoint(here / "parts") == here / "parts/step-00000006");
  const std::vector<double> others = run<strategy<mesh<dp, tp>, fp64>>(8, {.folder = here / "parts"}, {.tp = 2});
  REQUIRE(others.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(others[i] == doctest::Approx(unbroken[i + 6]).epsilon(1e-12));
}

TEST_CASE("a save that fails doesn't end the run, unless it is the last one") {
  const weft_test::temporary_folder here;
  const std::string folder = here / "saves", away = here / "away";
  const auto gone_at = [&](std::int64_t from, std::int64_t to) {
    return [=](context& ctx, std::int64_t step) {
      ctx.world.barrier().wait();
      if (ctx.is_first() && step == from) std::filesystem::rename(folder, away), std::ofstream(folder) << "a file";
      if (ctx.is_first() && step == to) std::filesystem::remove(folder), std::filesystem::rename(away, folder);
      ctx.world.barrier().wait();
      return std::string();
    };
  };
  // No save is under way when the folder goes: the one of step 4 begins without it.
  CHECK(run(9, {.folder = folder, .every = 4}, {.dp = 2}, gone_at(4, 5)).size() == 9);
  CHECK(names_in(folder) == std::vector<std::string>{"step-00000008", "step-00000009"});
  CHECK_THROWS_WITH_AS(run(11, {.folder = folder}, {.dp = 2}, gone_at(11, 12)),
                       doctest::Contains("step-00000011.unfinished can't be written"), failure);
  std::filesystem::remove(folder), std::filesystem::rename(away, folder);
  CHECK(newest_checkpoint(folder) == here / "saves/step-00000009");
}

TEST_CASE("folders of checkpoints that don't fit are refused, and nothing in them is lost") {
  const weft_test::temporary_folder here;
  const std::string folder = here / "saves";
  run(3, {.folder = folder});
  launch<S>({.dp = 2}, [&](context& ctx) {
    gpt2<S> model(ctx, small);
    trainer t(ctx, model);
    const auto refused = [&](const checkpoint_rule& rule, const char* sentence) {
      CHECK_THROWS_WITH_AS(keep_checkpoints(ctx, t, rule), doctest::Contains(sentence), failure);
    };
    refused({.folder = folder}, "holds step-00000003, and this run has only come to step 0; load that checkpoint");
    refused({.folder = folder + "/step-00000003/manifest.json"}, "manifest.json can't be written");
    refused({}, "checkpoints need a folder");
    refused({.folder = folder, .every = 0}, "a checkpoint every 0 steps");
    refused({.folder = folder, .keep = 0}, "the newest 0 checkpoints are kept");
    refused({.folder = folder, .keep_every = -1}, "every -1th step");
    CHECK_THROWS_WITH_AS(save_checkpoint(ctx, t, ""), doctest::Contains("a checkpoint to write has no name"), failure);
    CHECK_THROWS_WITH_AS(load_checkpoint(ctx, t, ""), doctest::Contains("a checkpoint to load has no name"), failure);
  });
  CHECK(names_in(folder) == std::vector<std::string>{"step-00000003"});
  // What a killed run left goes; what isn't a checkpoint's stays.
  std::filesystem::create_directory(folder + "/step-00000009.unfinished");
  std::ofstream(folder + "/step-mine") << "a file";
  run(4, {.folder = folder, .keep = 1});
  CHECK(names_in(folder) == std::vector<std::string>{"step-00000004", "step-mine"});
  CHECK_THROWS_WITH_AS(newest_checkpoint(here / "none"), doctest::Contains("holds no whole checkpoint"), failure);
}

TEST_CASE("a checkpoint holds the state at which it was begun, whatever the run does until it is finished") {
  const weft_test::temporary_folder here;
  std::filesystem::create_directory(here / "saves");
  const std::string folder = here / "saves/step-00000001";
  launch<S>({.dp = 2}, [&](context& ctx) {
    gpt2<S> model(ctx, small);
    trainer t(ctx, model);
    const weft_test::small_batches data{&ctx};
    const auto step = [&] {
      const std::int64_t begin = t.state().batches;
      return t.run(data, {.steps = begin + 1, .begin = begin, .batch = 6, .validation_sequences = 0, .print = false})
          .loss;
    };
    step();
    checkpoint_under_way saves = begin_checkpoint(ctx, t, folder);
    const double second = step();
    CHECK_THROWS_WITH_AS(begin_checkpoint(ctx, t, folder), doctest::Contains("is being written by a save that isn't"),
                         failure);
    CHECK_THROWS_WITH_AS(keep_checkpoints(ctx, t, {.folder = here / "saves"}),
                         doctest::Contains("is where another run writes its checkpoints, step-00000001.unfinished now"),
                         failure);
    CHECK(!std::filesystem::exists(folder));
    saves.finish();
    CHECK(saves.is_synced());
    CHECK_THROWS_WITH_AS(saves.finish(), doctest::Contains("step-00000001 was finished before"), failure);
    step();
    load_checkpoint(ctx, t, folder);
    CHECK(t.state().batches == 1);
    CHECK(step() == second);
  });
}

TEST_CASE("a run ends when the held-out loss has risen for long enough") {
  early_stop stop({.validations = 2, .least = 0.1});
  const double losses[] = {3, 2, 1.95, 1.8, 1.75, 1.72};
  for (int i = 0; i < 6; ++i) {
    stop.after_validation(10 * (i + 1), losses[i]);
    CHECK(stop.after_step({}) == (i < 5 ? "" : "the held-out loss hasn't fallen since step 40"));
  }
  CHECK(stop.best() == 1.8);
  CHECK(stop.best_step() == 40);
  CHECK_THROWS_WITH_AS(early_stop({.validations = 0}), doctest::Contains("waits for 0 validations"), failure);
  CHECK_THROWS_WITH_AS(early_stop({.least = -1}), doctest::Contains("falls by -1"), failure);
  CHECK_THROWS_WITH_AS(early_stop({.least = std::numeric_limits<double>::infinity()}),
                       doctest::Contains("falls by inf; it is a finite number"), failure);
}
