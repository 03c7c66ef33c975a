#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <weft/train/generate.hpp>
#include <weft/train/trainer.hpp>
#include <weft/weft.hpp>

#include "../temporary.hpp"
#include "trace_checks.hpp"

using namespace weft;

namespace {

const llama_config tiny{.layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 64, .vocab = 256, .max_seq = 32};

std::shared_ptr<const text_corpus> rhyme() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "one two three four five, once I caught a fish alive; ";
  return std::make_shared<const text_corpus>("rhyme", text);
}

// The text's batches with a different number of targets left in every row, as padding would leave them.
struct uneven {
  text_dataset whole;
  template <class Ids>
  token_batch<Ids> train(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t length) const {
    auto b = whole.train<Ids>(step, first, count, length);
    context& ctx = *untyped(b.tokens).ctx;
    const std::int64_t rows = b.tokens.template local_extent<batch>().here(),
                       begin = first + shard_index<layout_of<Ids>, batch>(ctx) * rows;
    b.targets.write_local_share([&](auto all) {
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 1 + (begin + r) * 5 % length; c < length; ++c) all[std::size_t(r * length + c)] = -1;
    });
    return b;
  }
  bool can_validate(std::int64_t) const { return false; }
  template <class Ids>
  token_batch<Ids> validation(std::int64_t first, std::int64_t count, std::int64_t length) const {
    return whole.validation<Ids>(first, count, length);
  }
};

struct trained {
  std::vector<double> losses, norms, tokens;
  std::string sampled, greedy;
};

// Trains and reads back metrics.jsonl.
template <class S, class Data>
trained train(degrees ranks, training plan, adamw optimizer = {.lr = 1e-2}) {
  const weft_test::temporary_folder folder;
  plan.print = false, plan.folder = folder.path();
  trained out;
  launch<S>(ranks, [&](context& ctx) {
    llama<S> model(ctx, tiny);
    trainer t(ctx, model, optimizer);
    t.run(Data{text_dataset(ctx, rhyme())}, plan);
    const std::string sampled = generate(model, "one two", {.tokens = 20, .temperature = 0.5, .top_k = 5, .seed = 3});
    const std::string greedy = generate(model, "one two", {.tokens = 20, .temperature = 0});
    if (ctx.is_first()) out.sampled = sampled, out.greedy = greedy;
  });
  const std::string lines = read_file(folder / "metrics.jsonl");
  for (std::size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
    const auto line = nlohmann::json::parse(lines.substr(at, lines.find('\n', at) - at));
    if (!line.contains("loss")) continue;
    out.losses.push_back(line.at("loss"));
    const auto& norm = line.at("gradient_norm");  // null where a step was skipped
    out.norms.push_back(norm.is_null() ? INFINITY : norm.get<double>());
    out.tokens.push_back(line.at("tokens"));
  }
  return out;
}

// fp32 sums in another order: 1e-4 is some hundred roundings of 1e-7, grown by five steps of training at a high rate.
void check_same(const trained& a, const trained& b) {
  REQUIRE(a.losses.size() == b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(a.losses[i] == doctest::Approx(b.losses[i]).epsilon(1e-4));
    CHECK(a.norms[i] ==
          doctest::Approx(b.norms[i]).epsilon(1e-3));  // the norm of the early gradients moves more than the loss
    CHECK(a.tokens[i] == b.tokens[i]);
  }
}

using plain = strategy<mesh<dp, tp>>;
using sharded = strategy<mesh<dp, tp>, zero3, checkpoint_full>;

}  // namespace

TEST_CASE(
    "bug: the loss is a mean of means where token counts differ (micro-batches and ranks equal the one big batch)") {
  const training plan{.steps = 5, .batch = 8, .seq = 16, .validation_sequences = 0};
  const auto in_parts = [&](int parts) {
    training p = plan;
    p.micro_batches = parts;
    return p;
  };
  const trained whole = train<plain, uneven>({}, plan);
  REQUIRE(whole.losses.size() == 5);
  CHECK(whole.tokens[0] == 1 + 6 + 11 + 16 + 5 + 10 + 15 + 4);  // row r of 16 keeps 1 + 5r mod 16
  check_same(train<plain, uneven>({}, in_parts(4)), whole);
  check_same(train<plain, uneven>({}, in_parts(8)), whole);
  check_same(train<plain, uneven>({.dp = 4}, plan), whole);
  check_same(train<plain, uneven>({.dp = 2}, in_parts(2)), whole);
  check_same(train<sharded, uneven>({.dp = 2, .tp = 2}, in_parts(2)), whole);
}

TEST_CASE("a tiny model learns its text, and its sample is the same for every sharding") {
  struct text_only : text_dataset {};
  const training plan{.steps = 60, .batch = 8, .seq = 32, .schedule = {.warmup = 5}};
  const trained one = train<plain, text_only>({}, plan);
  CHECK(one.losses.front() > 5);   // about ln 256 = 5.55
  CHECK(one.losses.back() < 1.5);  // the text's unigram entropy is 2.8; a bigram table would reach about 1
  const trained four = train<sharded, text_only>({.dp = 2, .tp = 2}, plan);
  CHECK(four.losses.back() < 1.5);
  CHECK(one.greedy.size() == 20);
  // After 60 steps rounding has told the two runs' weights apart; so compare samples after 2 steps, where it has not.
  training shorter = plan;
  shorter.steps = 2;
  const trained a = train<plain, text_only>({}, shorter), b = train<plain, text_only>({.dp = 2}, shorter),
                c = train<plain, text_only>({.tp = 2}, shorter),
                d = train<sharded, text_only>({.dp = 2, .tp = 2}, shorter);
  CHECK(a.greedy == b.greedy);
  CHECK(a.greedy == c.greedy);
  CHECK(a.greedy == d.greedy);
  CHECK(a.sampled == b.sampled);
  CHECK(a.sampled == c.sampled);
  CHECK(a.sampled == d.sampled);
}

TEST_CASE("two runs of one trainer are one longer run") {
  const auto losses = [](std::vector<std::int64_t> runs) {
    std::vector<double> out;
    launch<sharded>({.dp = 2}, [&](context& ctx) {
      llama<sharded> model(ctx, tiny);
      trainer t(ctx, model, {.lr = 1e-2});
      const text_dataset data(ctx, rhyme());
      for (const std::int64_t steps : runs) {
        const auto r = t.run(data, {.steps = steps,
                                    .batch = 4,
                                    .seq = 16,
                                    .schedule = {.floor = 1},
                                    .validation_sequences = 0,
                                    .print = false});
        if (ctx.is_first()) out.push_back(r.loss);
      }
    });
    return out;
  };
  const auto apart = losses({2, 1, 3});
  CHECK(losses({2}).back() == apart[0]);
  CHECK(losses({3}).back() == apart[1]);
  CHECK(losses({6}).back() == apart[2]);
}

TEST_CASE("a run leaves its files: every step's line, every rank's memory, the traced steps") {
  const weft_test::temporary_folder folder;
  trace_log collectives(4);
  launch<sharded>({.dp = 2, .tp = 2},
                  [&](context& ctx) {
                    llama<sharded> model(ctx, tiny);
                    trainer t(ctx, model, {});
                    const auto result = t.run(text_dataset(ctx, rhyme()),
                                              {.steps = 4,
                                               .batch = 8,
                                               .micro_batches = 2,
                                               .print = false,
                                               .folder = folder.path(),
                                               .trace = {.first = 2, .last = 3, .collectives = &collectives}});
                    CHECK(result.validation_loss > 0);
                    CHECK(ctx.spans == nullptr);
                  },
                  {.trace = &collectives});

  const auto trace = weft_test::read_trace(read_file(folder / "trace.json"));
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(trace.threads.at({rank, 0}) == "compute");
    CHECK(trace.counters.at(rank).size() > 4);
  }
  for (const char* name : {"step 2", "step 3", "micro-batch 0", "micro-batch 1", "data", "forward", "forward embedding",
                           "forward layer 1", "forward head", "backward", "backward layer 0", "backward head",
                           "optimizer", "finish gradients", "all_gather weights of layer 1",
                           "reduce_scatter gradients of layer 1", "wait for reduce_scatter gradients of layer 1",
                           "all_reduce gradient norm", "all_reduce loss"})  // asked for by no line of the program
    CHECK_MESSAGE(trace.names.count(name) == 1, name);
  CHECK(trace.names.count("step 1") == 0);
  CHECK(trace.names.count("step 4") == 0);
  std::set<std::string> threads;
  for (const auto& [where, name] : trace.threads) threads.insert(name);
  CHECK(threads.count("collectives dp") == 1);
  CHECK(threads.count("collectives tp") == 1);

  const auto ledger = nlohmann::json::parse(read_file(folder / "memory.json"));
  REQUIRE(ledger.at("ranks").size() == 4);
  for (const auto& ctx : ledger.at("ranks")) {
    std::int64_t at_peak = 0;
    for (const auto& category : ctx.at("categories")) at_peak += category.at("at_peak").get<std::int64_t>();
    CHECK(at_peak == ctx.at("peak"));
    CHECK(ctx.at("categories").at("optimizer").at("current") > 0);
    CHECK(ctx.at("scratch") > 0);  // of matrix products
    CHECK(ctx.at("pinned").is_null());
  }
}

namespace {
struct runs_again final : training_callback {
  std::function<void()> run;
  std::string after_step(const step_report&) override { return run(), "it ran"; }
};
}  // namespace

TEST_CASE("plans that don't fit are refused, and a model without its trainer says so") {
  launch<plain>({.dp = 2}, [&](context& ctx) {
    llama<plain> model(ctx, tiny);
    const text_dataset data(ctx, rhyme());
    {
      trainer t(ctx, model, {});
      CHECK_THROWS_WITH_AS(t.run(data, {.steps = 1, .batch = 3, .print = false}),
                           doctest::Contains("choose a multiple of 2"), failure);
      CHECK_THROWS_AS(t.run(data, {.steps = 1, .micro_batches = 0, .print = false}), failure);
      CHECK_THROWS_WITH_AS(t.run(data, {.steps = 1, .batch = 2, .seq = 64, .print = false}),
                           doctest::Contains("longer than max_seq"), failure);
      CHECK_THROWS_WITH_AS(t.run(data, {.steps = 1, .batch = 2, .seq = -1, .print = false}),
                           doctest::Contains("seq is -1"), failure);
      const std::int64_t most = std::numeric_limits<std::int64_t>::max();
      CHECK_THROWS_WITH_AS(
          t.run(data, {.print = false, .step_graph = true}),
          "step_graph: this backend's queue has no graphs, as cuda_backend's has: leave training.step_graph out",
          failure);
      CHECK_THROWS_WITH_AS(t.run(data, {.begin = -most, .print = false}), doctest::Contains("begin is -9"), failure);
      CHECK_THROWS_WITH_AS(t.run(data, {.batch = most - 1, .print = false}), doctest::Contains("more than 2^58 tokens"),
                           failure);
      runs_again again;
      const training once{.steps = 1, .batch = 2, .validation_sequences = 0, .print = false};
      again.run = [&] { t.run(data, once); };
      training with_it = once;
      with_it.callbacks = {&again};
      CHECK_THROWS_WITH_AS(t.run(data, with_it), doctest::Contains("within a run of this trainer"), failure);
      CHECK(t.state().batches == 1);
      CHECK(t.run(data, once).steps == 1);  // that run has ended
      CHECK(t.state().batches == 2);
      CHECK(t.state().updates == 2);
      CHECK(generate(model, "", {.tokens = 0}).empty());
      using ids = llama<plain>::ids;
      for (const double token : {-1.0, 256.0})
        CHECK_THROWS_WITH_AS(model(full<ids>(ctx, {2, 8}, token)), doctest::Contains("outside of the vocabulary"),
                             failure);
      const auto logits = model(full<ids>(ctx, {2, 8}, 255));
      CHECK_THROWS_WITH_AS(cross_entropy(logits, full<ids>(ctx, {2, 8}, 256)),
                           doctest::Contains("the target 256 is outside"), failure);
    }
    CHECK_THROWS_WITH_AS(generate(model, "x", {.tokens = 1}), doctest::Contains("no parameter store"), failure);
  });
}

namespace {
struct far_too_high {
  static constexpr std::string_view name = "fp16";
  using compute = fp16;
  using gradient = float;
  using reduce = float;
  using master = float;
  static constexpr double initial_loss_scale = 0x1p22;  // fp16 ends at 65504
};
}  // namespace

TEST_CASE("fp16 trains under a loss scale, which finds its height") {
  const training plan{.steps = 25, .batch = 8, .validation_sequences = 0};
  const auto whole = train<strategy<mesh<dp, tp>>, text_dataset>({}, plan);
  const auto half = train<strategy<mesh<dp, tp>, fp16_mixed, zero3>, text_dataset>({.dp = 2, .tp = 2}, plan);
  // A step or two of the 25 are skipped until the scale fits, and each lowers the loss by some parts in a hundred.
  CHECK(half.losses.back() == doctest::Approx(whole.losses.back()).epsilon(0.15));
  using S = strategy<mesh<dp, tp>, far_too_high, zero3>;
  launch<S>({.dp = 2}, [&](context& ctx) {
    llama<S> model(ctx, tiny);
    trainer t(ctx, model, adamw{.lr = 1e-2});
    training quiet = plan;
    quiet.print = false;
    const auto result = t.run(text_dataset(ctx, rhyme()), quiet);
    CHECK(result.skipped >= 4);
    CHECK(result.skipped < 20);
    CHECK(result.loss < result.first_loss);
  });
}
