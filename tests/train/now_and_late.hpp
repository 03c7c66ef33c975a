// A run on a queue that runs behind its host beside the same run on the CPU, whose queue runs at once: all that a user
// sees of both (lines, callbacks, sentences, weights), and what the host's waits left to come.
#pragma once

#include <algorithm>
#include <bit>
#include <functional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <weft/weft.hpp>

#include "../backend/late_backend.hpp"
#include "../temporary.hpp"

namespace weft_test {
using namespace weft;

inline const llama_config tiny{
    .layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 64, .vocab = 256, .max_seq = 16};

inline std::shared_ptr<const text_corpus> rhyme() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "one two three four five, once I caught a fish alive; ";
  return std::make_shared<const text_corpus>("rhyme", text);
}

// A text that remembers which step was asked for, whose step `empty` has no target.
struct told_text : text_dataset {
  context* ctx;
  std::int64_t *step, empty, fails;
  told_text(context& c, std::int64_t& at, std::int64_t none, std::int64_t bad)
      : text_dataset(c, rhyme()), ctx(&c), step(&at), empty(none), fails(bad) {}
  template <class Ids>
  token_batch<Ids> train(std::int64_t number, std::int64_t first, std::int64_t count, std::int64_t length) const {
    *step = number;
    require(number != fails, "the data of step ", number, " is gone");
    auto batch = text_dataset::train<Ids>(number, first, count, length);
    if (number == empty) batch.targets = generate<Ids>(*ctx, {count, length}, [](std::int64_t) { return -1; });
    return batch;
  }
};

// The store's hooks; in some steps of the data a gradient is given NaN by a kernel.
template <class Store>
struct poisoned final : unit_hooks {
  using backend = typename Store::backend;
  context& ctx;
  Store& store;
  parameter_registry& registry;
  const std::int64_t& step;
  std::vector<std::int64_t> bad;
  poisoned(context& c, Store& s, parameter_registry& r, const std::int64_t& now, std::vector<std::int64_t> steps)
      : ctx(c), store(s), registry(r), step(now), bad(std::move(steps)) {}
  void before_forward(int unit, bool recorded) override { store.before_forward(unit, recorded); }
  void after_forward(int unit) override { store.after_forward(unit); }
  void before_backward(int unit, backward_part part) override {
    store.before_backward(unit, part);
    if (part == backward_part::inputs || std::find(bad.begin(), bad.end(), step) == bad.end()) return;
    for (parameter_record& p : registry.units()[static_cast<std::size_t>(unit)].parameters)
      if (p.name.starts_with("layers.1.")) {
        slot& s = *p.slot;
        if (!s.has_gradient) backend::zero(ctx.queue<backend>(), s.gradient);
        s.has_gradient = true;
        backend::fill(ctx.queue<backend>(), local_array(s.gradient.data, s.gradient.type, {1, {3}}), std::nan(""));
      }
  }
  void after_backward(int unit, backward_part part) override { store.after_backward(unit, part); }
};

struct wanted {
  training plan = {};
  std::vector<std::int64_t> bad = {};  // steps with a NaN
  std::int64_t empty = 0, fails = 0;   // a step without a target, and one whose data can't be read
  std::function<std::vector<training_callback*>(std::string&)> callbacks = {};
  bool graph = false;  // steps of the late one are graphs
};

// What came of it: on the first rank but for the weights.
struct seen {
  std::string text;  // every line of the log without its times, callbacks, the result, the error, the state
  std::vector<std::uint64_t> bits;  // weights and gradients after the run, of all ranks
  std::vector<std::size_t> left;    // kernels that the host's waits in the run left to come
  graph_counts graphs = {};
};

inline std::string without_times(const std::string& lines) {
  std::string out;
  for (std::size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
    auto line = nlohmann::json::parse(lines.substr(at, lines.find('\n', at) - at));
    for (const char* key : {"ms", "tokens_per_second", "seconds"}) line.erase(key);
    out += line.dump() + '\n';
  }
  return out;
}

template <template <class> class Model, class S, class Config, class Optimizer>
seen run(const degrees& ranks, const Config& config, const Optimizer& optimizer, const wanted& w) {
  const temporary_folder folder;
  seen out;
  std::vector<std::vector<std::uint64_t>> bits(static_cast<std::size_t>(ranks.product()));
  try {
    launch<S>(ranks,
              [&](context& ctx) {
                Model<S> model(ctx, config);
                trainer t(ctx, model, optimizer);
                using store_type = std::remove_reference_t<decltype(t.store())>;
                std::int64_t now = 0;
                poisoned<store_type> hooks(ctx, t.store(), model.registry(), now,
                                           ctx.rank() == 0 ? w.bad : decltype(w.bad){});
                model.use(hooks);
                const told_text data(ctx, now, w.empty, w.fails);
                auto& queue = ctx.queue<typename S::backend>();
                queue.synchronize();
                training plan = w.plan;
                plan.batch = 8, plan.micro_batches = 2, plan.print = false, plan.folder = folder.path();
                std::string heard;
                if constexpr (requires { queue.begin_graph(); }) plan.step_graph = w.graph;
                if (w.callbacks) plan.callbacks = w.callbacks(heard);
                std::size_t before = 0;
                if constexpr (requires { queue.left(); }) before = queue.left().size();
                std::string error;
                try {
                  const training_result r = t.run(data, plan);
                  heard += detail::text(r.steps, ' ', r.skipped, ' ', r.last_step, ' ', r.ended, ' ', r.spikes, ' ',
                                        r.not_finite, ' ', r.zeroed, ' ', std::bit_cast<std::int64_t>(r.loss));
                } catch (const failure& e) {
                  error = e.what();
                }
                if constexpr (requires { queue.left(); })
                  if (ctx.is_first())
                    out.left.assign(queue.left().begin() + static_cast<std::ptrdiff_t>(before), queue.left().end());
                if constexpr (requires { queue.graphs(); }) out.graphs = queue.graphs();
                const trainer_state s = t.state();
                if (ctx.is_first())
                  out.text = heard + error +
                             detail::text('\n', s.updates, ' ', s.batches, ' ', s.passes, ' ', s.loss_scale, ' ',
                                          s.good_steps, ' ', s.skipped_steps, ' ', s.watched.losses.mean, ' ',
                                          s.watched.in_a_row, ' ', s.watched.overflows, '\n');
                if (!error.empty() && (ctx.size() > 1 || w.fails != 0))
                  return;  // gradients that were begun are of no step
                t.store().each_parameter([&](const parameter_record&, auto, auto weight) {
                  for (const auto x : weight)
                    bits[static_cast<std::size_t>(ctx.rank().here())].push_back(
                        std::bit_cast<std::uint64_t>(static_cast<double>(x)));
                });
                model.release();
              },
              {.check = false});
  } catch (const failure& e) {
    out.text += e.what();
  }
  for (const auto& of_rank : bits) out.bits.insert(out.bits.end(), of_rank.begin(), of_rank.end());
  out.text += without_times(read_file(folder / "metrics.jsonl"));
  if (std::filesystem::exists(folder / "monitor.jsonl")) out.text += read_file(folder / "monitor.jsonl");
  return out;
}

// Both; returns what the late one left to come.
template <template <class> class Model, class... Policies, class Config, class Optimizer = adamw>
seen same(const degrees& ranks, const Config& config, const wanted& w, const Optimizer& optimizer = {.lr = 1e-2}) {
  const seen now = run<Model, strategy<Policies...>>(ranks, config, optimizer, w);
  const seen late = run<Model, strategy<Policies..., late_backend>>(ranks, config, optimizer, w);
  CHECK((now.bits.size() > 1000) == (w.fails == 0));
  CHECK(now.text == late.text);
  CHECK(now.bits == late.bits);
  return late;
}

// How many of the host's waits left a whole step to come.
inline int ahead(const seen& s) {
  return static_cast<int>(std::count_if(s.left.begin(), s.left.end(), [](std::size_t n) { return n > 150; }));
}

inline training steps(std::int64_t n, monitoring watch = {}) {
  training plan;
  plan.steps = n, plan.validation_sequences = 0, plan.watch = watch;
  return plan;
}

}  // namespace weft_test
