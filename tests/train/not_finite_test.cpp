// NaN and infinity: found where they begin, and stopped, skipped or zeroed as the run was told.
#include "poisoned.hpp"

TEST_CASE("a weight that is not a number is found in its unit, on the rank that holds it") {
  for (const std::string& said : {error_of_initial<one>({}, "layers.1.down", {0, not_a_number}),
                                  error_of_initial<sharded>(four, "layers.1.down", {0, not_a_number})})
    check_says(said,
               "the loss of step 1 is not a number, first seen in the forward of layer 1 (rank 0), in its weight "
               "layers.1.down; training stops there");
  check_says(error_of_initial<sharded>(four, "norm", {0, infinity}),
             "first seen in the forward of head (rank 0), in its weight norm");
  // One element, in the slice of the ranks with tp = 1: every rank of the unit then sees NaN flow out, but these hold
  // it.
  const auto element = [](context& ctx, const stored_parameter& p) {
    if (ctx.index<tp>() == 1 && p.record.name == "layers.0.down") p.weight.as<float>()[0] = NAN;
  };
  const auto nothing = [](parameter_registry&) {};
  check_says(error_of<one>(four, nothing, element),
             "first seen in the forward of layer 0 (rank 1), in its weight layers.0.down");
  check_says(error_of<sharded>(four, nothing, element),
             "first seen in the forward of layer 0 (rank 1), in its weight layers.0.down");
}

TEST_CASE("an activation that overflows is found in the unit that passes it on") {
  // 1e30 times a weight, squared by SwiGLU, is more than fp32 holds.
  for (const std::string& said : {error_of_initial<one>({}, "layers.1.mlp_norm", {0, 1e30}),
                                  error_of_initial<sharded>(four, "layers.1.mlp_norm", {0, 1e30})})
    check_says(said, "first seen in the forward of layer 1 (rank 0), in what it passes on");
}

TEST_CASE("a gradient that is not a number is found in the backward of its unit, on the rank where it arose") {
  const auto one_rank = run_poisoned<one>({}, 2, 2, 2, 0, {});
  check_says(one_rank.error,
             "the gradient norm of step 1 is not a number, first seen in the backward of layer 1 (rank 0), in the "
             "gradient of layers.1.down;");
  const auto ranks = run_poisoned<sharded>(four, 1, 1, 1, 3, {}, infinity);
  check_says(ranks.error,
             "the gradient norm of step 1 is infinite, first seen in the backward of layer 1 (rank 3), in the gradient "
             "of layers.1.down;");
  const auto first = run_poisoned<sharded>(four, 1, 1, 1, 2, {}, not_a_number, tiny, "embedding");
  check_says(first.error, "first seen in the backward of embedding (rank 2), in the gradient of embedding;");
  // 3e38 is finite in fp32; on two ranks it is not any more.
  const auto summed = run_poisoned<one>({.dp = 2}, 1, 1, 1, -1, {}, 3e38);
  check_says(
      summed.error,
      "is infinite, first seen in the gradient of layers.1.down when it was summed over micro-batches and ranks");
  const auto unasked = run_poisoned<one>({}, 1, 1, 1, 0, {.locate = false});
  check_says(unasked.error, "the gradient norm of step 1 is not a number; training stops there");
}

namespace {

using vector = tensor<float, dims<hidden>>;
struct no_hooks final : unit_hooks {
  void before_forward(int, bool) override {}
  void after_forward(int) override {}
  void before_backward(int, backward_part) override {}
  void after_backward(int, backward_part) override {}
};
// y = x * x, sqrt of that within a nested unit, times 3; at x = 0 the root's derivative is infinite.
std::string found_in_units(double x, double seed) {
  std::string said;
  launch<strategy<mesh<>, single_rank>>({}, [&](context& ctx) {
    parameter_registry registry;
    for (const char* name : {"first", "second", "third"}) registry.begin_unit(name);
    fault_finder finder(ctx, registry, statistics_of<cpu_backend>);
    no_hooks hooks;
    const observing looking(ctx, &finder);
    auto leaf = full<vector>(ctx, {4}, x);
    leaf.requires_grad();
    const auto a = in_unit(
        ctx, hooks, 0, [](const auto& v) { return v * v; }, leaf);
    const auto b = in_unit(
        ctx, hooks, 1,
        [&](const auto& v) {
          return in_unit(
              ctx, hooks, 0, [](const auto& u) { return sqrt(u); }, v);
        },
        a);
    const auto c = in_unit(
        ctx, hooks, 2, [](const auto& v) { return v * 3; }, b);
    backward(sum(c), seed);
    said = finder.conclusion();
  });
  return said;
}

}  // namespace

TEST_CASE("what a unit passes back, and what it was given") {
  CHECK(found_in_units(1, 1).empty());
  CHECK(found_in_units(0, 1) == "first seen in the backward of second (rank 0), in the gradient that it passes back");
  CHECK(found_in_units(1, not_a_number) ==
        "first seen in the backward of third (rank 0), in the gradient that it is given");
  CHECK(found_in_units(1e30, 1) == "first seen in the forward of first (rank 0), in what it passes on");
  CHECK(found_in_units(not_a_number, 1) == "first seen in the forward of first (rank 0), in what it is given");
}

TEST_CASE("skip leaves the weights and counts the step; the run goes on") {
  const ended r = run_poisoned<sharded>(four, 3, 3, 3, 2, {.on_non_finite = non_finite::skip});
  REQUIRE(r.error.empty());
  CHECK(r.before == r.after);
  CHECK(r.result.skipped == 1);
  CHECK(r.result.not_finite == 1);
  CHECK(r.result.zeroed == 0);
  REQUIRE(r.lines.size() == 1);
  CHECK(r.lines[0].at("skipped") == true);
  CHECK(r.lines[0].at("gradient_norm").is_null());
  check_says(r.lines[0].at("not_finite"),
             "the gradient norm of step 1 is not a number, first seen in the backward of layer 1 (rank 2), in the "
             "gradient of layers.1.down");
  const ended good = run_poisoned<sharded>(four, 3, never, never, 2, {.on_non_finite = non_finite::skip});
  CHECK(good.before == r.before);
  CHECK(good.before != good.after);
  CHECK(good.result.not_finite == 0);
}

TEST_CASE("zero drops just the elements that are not finite, and counts them by unit") {
  for (const double number : {not_a_number, infinity}) {
    const ended r = run_poisoned<sharded>(four, 1, 1, 1, 2, {.on_non_finite = non_finite::zero}, number);
    const ended good = run_poisoned<sharded>(four, 1, never, never, 2, {});
    REQUIRE(r.error.empty());
    CHECK(r.result.skipped == 0);
    CHECK(r.result.not_finite == 1);
    CHECK(r.result.zeroed == 1);
    CHECK(r.lines.at(0).at("zeroed") == nlohmann::json{{"layer 1", 1}});
    CHECK(r.lines[0].at("gradient_norm").get<double>() ==
          doctest::Approx(good.lines.at(0).at("gradient_norm").get<double>()).epsilon(0.1));
    CHECK(r.before == good.before);
    // With moments of 0 and no decay, a gradient of 0 leaves the weight as it was. Rank 2 shares its slice with rank 0.
    std::vector<float> expected = good.after.at("layers.1.down");
    expected[3] = r.before.at("layers.1.down")[3];
    CHECK(r.after.at("layers.1.down") == expected);
    for (const auto& [name, weights] : good.after)
      if (name != "layers.1.down") CHECK(r.after.at(name) == weights);
  }
  // Replicated: both ranks of dp hold the element that counts once; the ranks with another slice have none.
  const ended whole = run_poisoned<one>(four, 1, 1, 1, 1, {.on_non_finite = non_finite::zero});
  CHECK(whole.result.zeroed == 1);
}

TEST_CASE("a loss that is not finite is skipped by zero too, and not for ever") {
  const auto run = [](monitoring watch) {
    training_result result;
    launch<one>({.dp = 2}, [&](context& ctx) {
      llama<one> model(ctx, tiny);
      for (parameter_record& p : model.registry().units()[1].parameters)
        if (p.name == "layers.0.attention_norm") p.init = {0, not_a_number};
      trainer t(ctx, model, {});
      const auto r = t.run(text_dataset(ctx, rhyme()), plan_of(4, watch));
      if (ctx.is_first()) result = r;
    });
    return result;
  };
  for (const non_finite what : {non_finite::skip, non_finite::zero}) {
    const auto r = run({.on_non_finite = what, .most_in_a_row = 0});
    CHECK(r.skipped == 4);
    CHECK(r.not_finite == 4);
    CHECK(run({.on_non_finite = what, .most_in_a_row = 4}).skipped == 4);
    CHECK_THROWS_WITH_AS(run({.on_non_finite = what, .most_in_a_row = 2}),
                         doctest::Contains("the loss of step 3 is not a number"), failure);
    CHECK_THROWS_WITH_AS(run({.on_non_finite = what, .most_in_a_row = 2}),
                         doctest::Contains("the 2 steps before it were no better"), failure);
  }
}
