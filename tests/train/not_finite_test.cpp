// NaN and infinity: found where they begin, and stopped, skipped or zeroed as the run was told.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <nlohmann/json.hpp>
#include <weft/weft.hpp>

#include "../temporary.hpp"

using namespace weft;

namespace {

const llama_config tiny{.layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 64, .vocab = 256, .max_seq = 16};
const double infinity = std::numeric_limits<double>::infinity(), not_a_number = std::nan("");

std::shared_ptr<const text_corpus> rhyme() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "one two three four five, once I caught a fish alive; ";
  return std::make_shared<const text_corpus>("rhyme", text);
}

// The hooks of a store, with a number put into one element of a weight's gradient as its unit's backward begins.
template <class Store>
struct poison final : unit_hooks {
  Store& store;
  parameter_registry& registry;
  std::string parameter;
  double number;
  const std::int64_t& step;  // of the data
  std::int64_t from, to;     // the steps in which it is put there
  bool here;

  poison(Store& s, parameter_registry& r, std::string name, double x, const std::int64_t& now, std::int64_t first,
         std::int64_t last, bool on_this_rank)
      : store(s),
        registry(r),
        parameter(std::move(name)),
        number(x),
        step(now),
        from(first),
        to(last),
        here(on_this_rank) {}
  void before_forward(int unit, bool recorded) override { store.before_forward(unit, recorded); }
  void after_forward(int unit) override { store.after_forward(unit); }
  void before_backward(int unit, backward_part part) override {
    store.before_backward(unit, part);
    if (part == backward_part::inputs || !here || step < from || step > to) return;
    for (parameter_record& p : registry.units()[static_cast<std::size_t>(unit)].parameters)
      if (p.name == parameter) {
        slot& s = *p.slot;
        if (!s.has_gradient) std::fill_n(s.gradient.as<float>(), s.gradient.elements(), 0.0f);
        s.has_gradient = true;
        s.gradient.as<float>()[3] = static_cast<float>(number);
      }
  }
  void after_backward(int unit, backward_part part) override { store.after_backward(unit, part); }
};

// A text that remembers which step was asked for.
struct counted_text : text_dataset {
  std::int64_t* step;
  counted_text(context& rank, std::int64_t& at) : text_dataset(rank, rhyme()), step(&at) {}
  template <class Ids>
  token_batch<Ids> train(std::int64_t number, std::int64_t first, std::int64_t count, std::int64_t length) const {
    *step = number;
    return text_dataset::train<Ids>(number, first, count, length);
  }
};

training plan_of(std::int64_t steps, monitoring watch) {
  return {.steps = steps,
          .batch = 8,
          .micro_batches = 2,
          .schedule = {.floor = 1},
          .validation_sequences = 0,
          .print = false,
          .watch = watch};
}
constexpr std::int64_t never = 1000;

// The error of a run whose weights `spoil` has changed, before or after they are in a store.
template <class S>
std::string error_of(const degrees& ranks, auto&& spoil_model, auto&& spoil_store) {
  try {
    launch<S>(ranks, [&](context& rank) {
      llama<S> model(rank, tiny);
      spoil_model(model.registry());
      trainer t(rank, model, {});
      t.store().each_stored([&](const stored_parameter& p) { spoil_store(rank, p); });
      t.run(text_dataset(rank, rhyme()), plan_of(2, {}));
    });
  } catch (const error& e) {
    return e.what();
  }
  return "";
}
template <class S>
std::string error_of_initial(const degrees& ranks, std::string parameter, initial init) {
  const auto spoil = [&](parameter_registry& registry) {
    for (parameter_unit& u : registry.units())
      for (parameter_record& p : u.parameters)
        if (p.name == parameter) p.init = init;
  };
  return error_of<S>(ranks, spoil, [](context&, const stored_parameter&) {});
}

struct ended {
  training_result result;
  std::vector<nlohmann::json> lines;                        // of metrics.jsonl
  std::map<std::string, std::vector<float>> before, after;  // weights around the last step, as the first rank sees them
  std::string error;
};

// `steps` steps, of which from ... to have a poisoned gradient on rank `where`.
template <class S, class Model = llama<S>, class Config = llama_config>
ended run_poisoned(const degrees& ranks, std::int64_t steps, std::int64_t from, std::int64_t to, int where,
                   monitoring watch, double number = not_a_number, const Config& config = tiny,
                   const std::string& parameter = "layers.1.down") {
  ended out;
  const weft_test::temporary_folder folder;
  try {
    launch<S>(ranks, [&](context& rank) {
      Model model(rank, config);
      trainer t(rank, model, {.lr = 1e-2, .weight_decay = 0, .clip_norm = 0});
      std::int64_t now = 0;
      using store_type = typename trainer<Model>::store_type;
      poison<store_type> hooks(t.store(), model.registry(), parameter, number, now, from, to,
                               where < 0 || rank.rank() == where);
      model.use(hooks);
      const counted_text data(rank, now);
      const auto weights = [&](auto& into) {
        t.store().each_parameter([&](const parameter_record& p, const float*, const float* w) {
          if (rank.is_first()) into[p.name].assign(w, w + p.local.elements());
        });
      };
      training plan = plan_of(steps - 1, watch);
      if (steps > 1) t.run(data, plan);
      weights(out.before);
      plan.steps = 1, plan.folder = folder.path();
      const training_result result = t.run(data, plan);
      weights(out.after);
      if (rank.is_first()) out.result = result;
    });
    const std::string lines = read_file(folder / "metrics.jsonl");
    for (std::size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1)
      out.lines.push_back(nlohmann::json::parse(lines.substr(at, lines.find('\n', at) - at)));
  } catch (const error& e) {
    out.error = e.what();
  }
  return out;
}

using one = strategy<mesh<dp, tp>>;
using sharded = strategy<mesh<dp, tp>, zero3, checkpoint_full>;
using staged = strategy<mesh<dp, pp>>;
struct weights_last {  // a schedule: all forwards, then all backwards, weights last of all
  static constexpr std::string_view name = "weights_last";
  template <class Emit>
  static constexpr void order(int, int, int micro_batches, Emit&& emit) {
    using enum pipeline_action::kind;
    for (const auto what : {forward, backward_inputs, backward_weights})
      for (int m = 0; m < micro_batches; ++m) emit(pipeline_action{what, m});
  }
};
const degrees four{.dp = 2, .tp = 2};

void check_says(const std::string& said, const char* sentence) {
  CHECK_MESSAGE(said.find(sentence) != std::string::npos, said);
}

}  // namespace

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
  const auto element = [](context& rank, const stored_parameter& p) {
    if (rank.index<tp>() == 1 && p.record.name == "layers.0.down") p.weight.as<float>()[0] = NAN;
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
  launch<strategy<mesh<>, self>>({}, [&](context& rank) {
    parameter_registry registry;
    for (const char* name : {"first", "second", "third"}) registry.begin_unit(name);
    fault_finder<cpu_backend> finder(rank, registry);
    no_hooks hooks;
    const observing looking(rank, &finder);
    auto leaf = full<vector>(rank, {4}, x);
    leaf.requires_grad();
    const auto a = in_unit(
        rank, hooks, 0, [](const auto& v) { return v * v; }, leaf);
    const auto b = in_unit(
        rank, hooks, 1,
        [&](const auto& v) {
          return in_unit(
              rank, hooks, 0, [](const auto& u) { return sqrt(u); }, v);
        },
        a);
    const auto c = in_unit(
        rank, hooks, 2, [](const auto& v) { return v * 3; }, b);
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

TEST_CASE("in a pipeline it is found on the stage that has the unit, and every stage comes to know") {
  const degrees two{.pp = 2};
  check_says(error_of_initial<staged>(two, "layers.1.down", {0, not_a_number}),
             "first seen in the forward of layer 1 (rank 1), in its weight layers.1.down");
  check_says(error_of_initial<staged>(two, "layers.0.mlp_norm", {0, 1e30}),
             "first seen in the forward of layer 0 (rank 0), in what it passes on");
  // In the last stage: the gradient is handed back to the first.
  check_says(run_poisoned<staged>({.dp = 2, .pp = 2}, 1, 1, 1, 3, {}).error,
             "first seen in the backward of layer 1 (rank 3), in the gradient of layers.1.down");
  for (const std::string parameter : {"layers.0.down", "embedding"})
    check_says(run_poisoned<strategy<mesh<pp>, weights_last>>(two, 1, 1, 1, 0, {}, infinity, tiny, parameter).error,
               ("(rank 0), in the gradient of " + parameter + ";").c_str());
  const auto first =
      run_poisoned<staged>(two, 1, 1, 1, 0, {.on_non_finite = non_finite::zero}, infinity, tiny, "embedding");
  REQUIRE(first.error.empty());
  CHECK(first.lines.at(0).at("zeroed") == nlohmann::json{{"embedding", 1}});
  check_says(first.lines[0].at("not_finite"),
             "first seen in the backward of embedding (rank 0), in the gradient of embedding");
  // The last stage has a copy of tied embeddings, where the sum over both ends is infinite too; its elements don't count.
  llama_config tied = tiny;
  tied.tied_embeddings = true;
  const auto ends =
      run_poisoned<staged>(two, 1, 1, 1, 0, {.on_non_finite = non_finite::zero}, infinity, tied, "embedding");
  CHECK(ends.lines.at(0).at("zeroed") == nlohmann::json{{"embedding", 1}});
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
    launch<one>({.dp = 2}, [&](context& rank) {
      llama<one> model(rank, tiny);
      for (parameter_record& p : model.registry().units()[1].parameters)
        if (p.name == "layers.0.attention_norm") p.init = {0, not_a_number};
      trainer t(rank, model, {});
      const auto r = t.run(text_dataset(rank, rhyme()), plan_of(4, watch));
      if (rank.is_first()) result = r;
    });
    return result;
  };
  for (const non_finite what : {non_finite::skip, non_finite::zero}) {
    const auto r = run({.on_non_finite = what, .most_in_a_row = 0});
    CHECK(r.skipped == 4);
    CHECK(r.not_finite == 4);
    CHECK(run({.on_non_finite = what, .most_in_a_row = 4}).skipped == 4);
    CHECK_THROWS_WITH_AS(run({.on_non_finite = what, .most_in_a_row = 2}),
                         doctest::Contains("the loss of step 3 is not a number"), error);
    CHECK_THROWS_WITH_AS(run({.on_non_finite = what, .most_in_a_row = 2}),
                         doctest::Contains("the 2 steps before it were no better"), error);
  }
}

TEST_CASE("looking for the place repeats the same dropout masks, and costs none of those to come") {
  using model = gpt2<one>;
  const gpt2_config config{.layers = 2, .hidden = 32, .heads = 4, .vocab = 256, .max_seq = 16, .dropout = 0.2};
  const auto run = [&](bool locate) {
    return run_poisoned<one, model>({}, 3, 1, 1, 0, {.on_non_finite = non_finite::skip, .locate = locate}, not_a_number,
                                    config, "layers.1.down");
  };
  const ended with = run(true), without = run(false);
  REQUIRE(with.error.empty());
  CHECK(with.result.loss == without.result.loss);
  CHECK(with.after == without.after);
}
