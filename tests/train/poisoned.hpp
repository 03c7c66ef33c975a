// What tests of NaN and infinity share: runs with one bad number in a weight or in a gradient, and what became of them.
#pragma once

#include <cmath>
#include <vector>

#include <doctest/doctest.h>
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
  counted_text(context& ctx, std::int64_t& at) : text_dataset(ctx, rhyme()), step(&at) {}
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
          .clip_norm = 0,
          .validation_sequences = 0,
          .print = false,
          .watch = watch};
}
constexpr std::int64_t never = 1000;

// The error of a run whose weights `spoil` has changed, before or after they are in a store.
template <class S>
std::string error_of(const degrees& ranks, auto&& spoil_model, auto&& spoil_store) {
  try {
    launch<S>(ranks, [&](context& ctx) {
      llama<S> model(ctx, tiny);
      spoil_model(model.registry());
      trainer t(ctx, model, {});
      t.store().each_stored([&](const stored_parameter& p) { spoil_store(ctx, p); });
      t.run(text_dataset(ctx, rhyme()), plan_of(2, {}));
    });
  } catch (const failure& e) {
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
    launch<S>(ranks, [&](context& ctx) {
      Model model(ctx, config);
      trainer t(ctx, model, {.lr = 1e-2, .weight_decay = 0});
      std::int64_t now = 0;
      using store_type = typename trainer<Model>::store_type;
      poison<store_type> hooks(t.store(), model.registry(), parameter, number, now, from, to,
                               where < 0 || ctx.rank() == where);
      model.use(hooks);
      const counted_text data(ctx, now);
      const auto weights = [&](auto& into) {
        t.store().each_parameter([&](const parameter_record& p, auto, auto w) {
          if (ctx.is_first()) into[p.name].assign(w.begin(), w.end());
        });
      };
      training plan = plan_of(steps - 1, watch);
      if (steps > 1) t.run(data, plan);
      weights(out.before);
      plan.steps = 1, plan.folder = folder.path();
      const training_result result = t.run(data, plan);
      weights(out.after);
      if (ctx.is_first()) out.result = result;
    });
    const std::string lines = read_file(folder / "metrics.jsonl");
    for (std::size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1)
      out.lines.push_back(nlohmann::json::parse(lines.substr(at, lines.find('\n', at) - at)));
  } catch (const failure& e) {
    out.error = e.what();
  }
  return out;
}

using one = strategy<mesh<dp, tp>>;
using sharded = strategy<mesh<dp, tp>, zero3, checkpoint_full>;
const degrees four{.dp = 2, .tp = 2};

[[maybe_unused]] void check_says(const std::string& said, const char* sentence) {
  CHECK_MESSAGE(said.find(sentence) != std::string::npos, said);
}

}  // namespace
