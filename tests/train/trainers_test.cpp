// Trainers beside and after each other: runs in parts, after an error, of two models in turns; two for one model never;
// and what a rank of one holds.
#include <cmath>
#include <memory>
#include <vector>

#include "poisoned.hpp"
#include "step_by_hand.hpp"

namespace {

// A text with a target outside of the vocabulary in the second micro-batch of one step.
struct text_with_a_fault : text_dataset {
  const std::int64_t* at;
  text_with_a_fault(context& ctx, const std::int64_t& step) : text_dataset(ctx, rhyme()), at(&step) {}
  template <class Ids>
  token_batch<Ids> train(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t length) const {
    auto batch = text_dataset::train<Ids>(step, first, count, length);
    if (step == *at && first > 0) batch.targets.write_local_share([](auto all) { all[0] = 999; });
    return batch;
  }
};

// A text whose second micro-batch of one step can't be read.
struct failing_read : text_dataset {
  const std::int64_t* at;
  failing_read(context& ctx, const std::int64_t& step) : text_dataset(ctx, rhyme()), at(&step) {}
  template <class Ids>
  token_batch<Ids> train(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t length) const {
    if (step == *at && first > 0) throw failure("no disk");
    return text_dataset::train<Ids>(step, first, count, length);
  }
};

// Keeps no moment and takes one.
struct forgetful {
  static constexpr int moments = 0;
  double lr = 0.1;
  void update(auto& share, const optimizer_step&) const { share.moments[0][0] = 0; }
};

template <class T>
std::vector<float> weights_of(T& trained) {
  std::vector<float> all;
  trained.store().each_parameter([&](const parameter_record& p, auto, auto w) {
    for (std::int64_t i = 0; i < p.local.elements(); ++i) all.push_back(static_cast<float>(w[i]));
  });
  return all;
}

template <class S>
void check(const degrees& ranks) {
  launch<S>(ranks, [](context& ctx) {
    const text_dataset data(ctx, rhyme());
    const auto six = [&] {
      llama<S> model(ctx, tiny);
      trainer t(ctx, model, {.lr = 1e-2});
      t.run(data, plan_of(6, {}));
      return weights_of(t);
    }();
    llama<S> model(ctx, tiny), other(ctx, tiny);
    {
      trainer t(ctx, model, {.lr = 1e-2});
      t.run(data, plan_of(2, {}));
      generate(model, "once", {.tokens = 2});
      t.run(data, plan_of(4, {}));
      CHECK(weights_of(t) == six);
    }
    {  // the same model under a trainer of its own again, in turns with another
      trainer t(ctx, model, {.lr = 1e-2}), u(ctx, other, {.lr = 1e-2});
      for (int i = 0; i < 3; ++i) t.run(data, plan_of(2, {})), u.run(data, plan_of(2, {}));
      CHECK(weights_of(t) == six);
      CHECK(weights_of(u) == six);
    }
  });
}
}  // namespace

TEST_CASE("runs in parts, and of two models in turns, are one run") {
  check<one>({});
  check<sharded>({.dp = 2});
  check<strategy<mesh<dp, pp>, zero1, bf16_mixed>>({.dp = 2, .pp = 2});
}

TEST_CASE("a rank holds at most what is derived by hand from the model's sizes, to the byte by category") {
  using S = strategy<mesh<dp, pp>, zero1, bf16_mixed>;
  const int ranks = 2, sequences = 2;
  launch<S>({.dp = ranks}, [](context& ctx) {
    llama<S> model(ctx, weft_test::odd_sizes);
    trainer t(ctx, model, {.lr = 1e-2});
    const text_dataset data(ctx, rhyme());
    const auto step = [&] {
      t.run(
          data,
          {.steps = 1, .batch = 2 * ranks * sequences, .micro_batches = 2, .validation_sequences = 0, .print = false});
    };
    step();
    ctx.memory.reset_peaks();
    step();
    const memory_ledger& held = ctx.memory.ledger();
    const auto by_hand = weft_test::step_by_hand(ranks, sequences);
    std::size_t together = 0;
    for (std::size_t c = 0; c < memory_categories; ++c) {
      CAPTURE(memory_names[c]);
      CHECK(held.peak[c] == by_hand[c]);
      together += by_hand[c];
    }
    const std::size_t targets = by_hand[static_cast<std::size_t>(memory::data)] / 2;  // the loss is through with them
    CHECK(held.peak_total == together - targets);
  });
}

TEST_CASE("a run after one that ended with an error goes on from there") {
  launch<sharded>({}, [](context& ctx) {
    std::int64_t at = 3;
    llama<sharded> model(ctx, tiny), good(ctx, tiny);
    trainer t(ctx, model, {.lr = 1e-2}), u(ctx, good, {.lr = 1e-2});
    const text_with_a_fault data(ctx, at);
    CHECK_THROWS_WITH_AS(t.run(data, plan_of(6, {})), doctest::Contains("the target 999"), failure);
    at = -1;
    t.run(data, plan_of(4, {}));
    u.run(data, plan_of(6, {}));
    CHECK(weights_of(t) == weights_of(u));
  });
}

TEST_CASE("an optimizer that takes a moment which it doesn't keep gets a sentence") {
  launch<one>({}, [](context& ctx) {
    llama<one> model(ctx, tiny);
    trainer t(ctx, model, forgetful{});
    CHECK_THROWS_WITH_AS(
        t.run(text_dataset(ctx, rhyme()), plan_of(1, {})),
        doctest::Contains("update() reads moments[0] of its share, and this optimizer keeps 0 moments: "
                          "write static constexpr int moments = 1"),
        failure);
  });
}

TEST_CASE("a pipeline whose step ended with an error says so") {
  using staged = strategy<mesh<dp, pp>, zero1, bf16_mixed>;
  const auto run_on = [] {
    launch<staged>({.pp = 2}, [](context& ctx) {
      std::int64_t at = 3;
      llama<staged> model(ctx, tiny);
      trainer t(ctx, model, {.lr = 1e-2});
      const failing_read data(ctx, at);
      CHECK_THROWS_AS(t.run(data, plan_of(6, {})), failure);  // or what the other rank said meanwhile
      at = -1;
      t.run(data, plan_of(4, {}));
    });
  };
  CHECK_THROWS_WITH_AS(run_on(), doctest::Contains("begin a new launch"), failure);
}

TEST_CASE("a model has one parameter store at a time") {
  launch<one>({}, [](context& ctx) {
    llama<one> model(ctx, tiny);
    const text_dataset data(ctx, rhyme());
    {
      trainer first(ctx, model, {});
      CHECK_THROWS_WITH_AS(
          trainer(ctx, model, {}),
          doctest::Contains("the model has a parameter store already: keep one trainer or store at a time"), failure);
      CHECK_NOTHROW(first.run(data, plan_of(1, {})));
    }
    trainer second(ctx, model, {});
    CHECK_NOTHROW(second.run(data, plan_of(1, {})));
  });
}

TEST_CASE("a trainer whose model was destroyed says so, and is destroyed in peace") {
  launch<one>({}, [](context& ctx) {
    auto model = std::make_unique<llama<one>>(ctx, tiny);
    trainer t(ctx, *model, {});
    model.reset();
    const text_dataset data(ctx, rhyme());
    const auto says = doctest::Contains("a model has to outlive its trainer");
    CHECK_THROWS_WITH_AS(t.run(data, plan_of(1, {})), says, failure);
    CHECK_THROWS_WITH_AS(t.store().gradient_norm(), says, failure);
    CHECK_THROWS_WITH_AS(t.model(), says, failure);
    CHECK_THROWS_WITH_AS(t.state(), says, failure);
  });
}
