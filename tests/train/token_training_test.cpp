// Training on token files: a run that goes on has the losses of one that never ended, and what the loss leaves out
// makes no number that isn't finite.
#include <cmath>

#include <doctest/doctest.h>

#include <weft/io/token_dataset.hpp>
#include <weft/train/checkpoint.hpp>
#include <weft/train/head_importance.hpp>
#include <weft/weft.hpp>

#include "../said_by.hpp"
#include "../temporary.hpp"

using namespace weft;

namespace {

using S = strategy<mesh<dp>, fp64>;

// Says the next token by the last: quick to compile.
class bigrams : public model_base<S> {
 public:
  explicit bigrams(context& ctx) : model_base(ctx), unit_(registry().begin_unit("tables")) {
    registry().add(ctx, table_, "table", {2, {31, 8}}, {0.3});
    registry().add(ctx, head_, "head", {2, {31, 8}}, {0.3});
  }
  auto operator()(const ids& tokens) {
    return run_unit(
        unit_, [&](const auto& t) { return contract<hidden>(embedding(t, table_), head_); }, tokens);
  }

 private:
  int unit_;
  weight<S, dims<vocab, hidden>> table_, head_;
};

// 60 documents; the loss is on every third token, and in the first half of them on none.
void write_files(const std::string& stem, bool with_loss, std::size_t silent) {
  token_writer tokens(stem, 31), loss(stem + ".loss", 2);
  for (std::size_t d = 0; d < 60; ++d) {
    std::vector<std::int32_t> one, on;
    for (std::size_t i = 0; i < 5 + d % 9; ++i)
      one.push_back(static_cast<std::int32_t>((d * 7 + i * i) % 31)), on.push_back(d >= silent && i % 3 == 1);
    tokens.add(one), loss.add(on);
  }
  tokens.finish();
  if (with_loss) loss.finish();
}

struct asked {
  int ranks = 1, micro_batches = 1;
  std::int64_t batch = 8;
  std::string load = {}, save = {};  // after the third step
};
std::vector<double> losses(const std::string& file, const asked& a) {
  std::vector<double> out;
  launch<S>({.dp = a.ranks}, [&](context& ctx) {
    bigrams model(ctx);
    trainer t(ctx, model, adamw{.lr = 1e-2});
    if (!a.load.empty()) load_checkpoint(ctx, t, a.load);
    const token_dataset data(ctx, file, {.held_out = 0.2});
    for (std::int64_t step = t.state().batches; step < 6; ++step) {
      const training_result r = t.run(data, {.steps = step + 1,
                                             .begin = step,
                                             .batch = a.batch,
                                             .micro_batches = a.micro_batches,
                                             .seq = 8,
                                             .validation_sequences = step == 5 ? 8 : 0,
                                             .print = false});
      if (ctx.is_first()) out.push_back(r.loss);
      if (ctx.is_first() && step == 5) out.push_back(r.validation_loss);
      if (step == 2 && !a.save.empty()) save_checkpoint(ctx, t, a.save);
    }
  });
  return out;
}

}  // namespace

TEST_CASE("a run that goes on is one that never ended, and any ranks and micro-batches have its losses") {
  const weft_test::temporary_folder here;
  write_files(here / "t", true, 0);
  const auto whole = losses(here / "t", {.ranks = 2, .micro_batches = 2, .save = here / "c"});
  REQUIRE(whole.size() == 7);
  CHECK(whole[5] != whole[0]);
  CHECK(losses(here / "t", {.ranks = 2, .micro_batches = 2, .load = here / "c"}) ==
        std::vector(whole.begin() + 3, whole.end()));
  const asked others[] = {{}, {.ranks = 4}, {.micro_batches = 8}, {.ranks = 4, .micro_batches = 2}};
  for (const asked& a : others) {
    const auto same = losses(here / "t", a);
    for (std::size_t i = 0; i < 7; ++i) CHECK(std::abs(same[i] - whole[i]) <= 1e-12 * whole[i]);
  }
  const weft_test::temporary_folder there;
  write_files(there / "t", false, 0);
  CHECK(losses(there / "t", {})[0] != whole[0]);
}

TEST_CASE("micro-batches without a target count nothing, and a step without one is refused") {
  const weft_test::temporary_folder here;
  write_files(here / "t", true, 30);
  const auto whole = losses(here / "t", {});
  for (const double loss : whole) CHECK(std::isfinite(loss));
  const asked others[] = {{.micro_batches = 8}, {.ranks = 4, .micro_batches = 2}};
  for (const asked& a : others) {
    const auto same = losses(here / "t", a);
    for (std::size_t i = 0; i < 7; ++i) CHECK(std::abs(same[i] - whole[i]) <= 1e-12 * whole[i]);
  }
  const weft_test::temporary_folder there;
  write_files(there / "t", true, 60);
  CHECK(weft_test::said_by([&] { losses(there / "t", {}); }) ==
        "no token of step 1 has a target, so there is nothing to learn from; training stops there: check the data, or "
        "have such steps skipped (on_non_finite: skip)");
}

TEST_CASE("a step without a target is skipped where that is asked for") {
  // The first 40 documents have none, so that some of the steps of one sequence are without.
  const weft_test::temporary_folder here;
  write_files(here / "t", true, 40);
  launch<S>({}, [&](context& ctx) {
    bigrams model(ctx);
    trainer t(ctx, model, adamw{.lr = 1e-2});
    const token_dataset data(ctx, here / "t", {.held_out = 0});
    const training plan{
        .steps = 30, .batch = 1, .seq = 8, .print = false, .watch = {.on_non_finite = non_finite::skip}};
    std::int64_t without = 0;
    for (std::int64_t step = 1; step <= plan.steps; ++step) {
      const auto targets = data.train<bigrams::ids>(step, 0, 1, plan.seq, 1).targets;
      const auto own = targets.local_share();
      without += std::all_of(own.begin(), own.end(), [](std::int32_t id) { return id < 0; });
    }
    REQUIRE(without > 3);
    REQUIRE(without < 27);
    const training_result r = t.run(data, plan);
    CHECK(r.skipped == without);
    CHECK(r.not_finite == without);
    CHECK(t.state().updates == 30 - without);
  });
}

TEST_CASE("a model is refused where no store has its weights") {
  launch<S>({}, [](context& ctx) {
    bigrams model(ctx);
    const auto ids = full<bigrams::ids>(ctx, {1, 4}, 3);
    const auto none = "the model has no parameter store: make a trainer or a parameter_store for it, and keep that as";
    CHECK_THROWS_WITH_AS(model(ids), doctest::Contains(none), failure);
    {
      const trainer t(ctx, model);
      const no_grad off(ctx);
      CHECK(model(ids).global_extent<vocab>() == 31);
    }
    CHECK_THROWS_WITH_AS(model(ids), doctest::Contains(none), failure);
  });
}

TEST_CASE("heads are judged by token files, batches without a target left out") {
  const weft_test::temporary_folder here;
  write_files(here / "t", true, 40);
  launch<S>({}, [&](context& ctx) {
    llama<S> model(ctx, {.layers = 2, .hidden = 16, .heads = 4, .ffn = 16, .vocab = 31, .max_seq = 8});
    trainer t(ctx, model);
    const token_dataset data(ctx, here / "t", {.held_out = 0});
    const auto by = [&](std::int64_t begin, std::int64_t batches) {
      return head_gradients(ctx, model, t.store(), data, {.batches = batches, .batch = 1, .begin = begin});
    };
    std::int64_t without = -1;
    for (std::int64_t step = 1; step <= 30 && without < 0; ++step) {
      const auto targets = data.train<bigrams::ids>(step, 0, 1, 8, 1).targets;
      const auto own = targets.local_share();
      if (std::all_of(own.begin(), own.end(), [](std::int32_t id) { return id < 0; })) without = step;
    }
    REQUIRE(without > 0);
    CHECK(by(0, 30)[1].size() == 4);
    CHECK(weft_test::said_by([&] { by(without - 1, 1); }).find("has a target, so there are no gradients to judge") !=
          std::string::npos);
    CHECK(model.recorded_passes() == 0);
  });
}
