// A run on a queue that runs behind its host gives a step before it asks what became of the one before. All that a user
// sees (lines, callbacks, checkpoints, sentences, weights) is what it is on the CPU, whose queue runs at once.
#include <algorithm>
#include <bit>
#include <functional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <weft/train/early_stop.hpp>
#include <weft/train/keep_checkpoints.hpp>
#include <weft/weft.hpp>

#include "../backend/late_backend.hpp"
#include "../temporary.hpp"

namespace {
using namespace weft;
using weft_test::late_backend;

const llama_config tiny{.layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 64, .vocab = 256, .max_seq = 16};
const gpt2_config with_masks{.layers = 2, .hidden = 32, .heads = 4, .vocab = 256, .max_seq = 16, .dropout = 0.1};
struct fp16_from_above : fp16_mixed {  // overflows at first
  static constexpr double initial_loss_scale = 0x1p17;
};

std::shared_ptr<const text_corpus> rhyme() {
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
};

// What came of it: on the first rank but for the weights.
struct seen {
  std::string text;  // every line of the log without its times, callbacks, the result, the error, the state
  std::vector<std::uint64_t> bits;  // weights and gradients after the run, of all ranks
  std::vector<std::size_t> left;    // kernels that the host's waits in the run left to come
};

std::string without_times(const std::string& lines) {
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
  const weft_test::temporary_folder folder;
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
int ahead(const seen& s) {
  return static_cast<int>(std::count_if(s.left.begin(), s.left.end(), [](std::size_t n) { return n > 150; }));
}

training steps(std::int64_t n, monitoring watch = {}) {
  training plan;
  plan.steps = n, plan.validation_sequences = 0, plan.watch = watch;
  return plan;
}

TEST_CASE("a step ahead: of six steps the host waits for five with the next one behind them, and for the last") {
  const seen one = same<llama, mesh<dp>>({}, tiny, {.plan = steps(6)});
  CHECK(one.left.size() == 6);
  CHECK(ahead(one) == 5);
  CHECK(one.left.back() == 0);
  // What the ranks tell each other of a step is brought by their queues, and is waited for where the step is judged.
  const seen four =
      same<llama, mesh<dp, tp>, zero3, bf16_mixed, checkpoint_selective>({.dp = 2, .tp = 2}, tiny, {.plan = steps(6)});
  CHECK(ahead(four) == 5);
  CHECK(std::count(four.left.begin(), four.left.end(), 0) == std::ssize(four.left) - 5);
}

TEST_CASE("a step ahead: overflows of the first steps under a loss scale; stages and dropout") {
  const seen s = same<llama, mesh<dp>, fp16_from_above>({}, tiny, {.plan = steps(9)});
  CHECK(s.text.find("\"skipped\":true") != std::string::npos);
  CHECK(ahead(s) >= 2);
  const seen staged =
      same<gpt2, mesh<dp, pp>, zero2, fp16_from_above, zb_h1>({.dp = 2, .pp = 2}, with_masks, {.plan = steps(9)});
  CHECK(staged.text.find("\"skipped\":true") != std::string::npos);
}

TEST_CASE("a step ahead: a NaN is skipped, zeroed or ends the run, and the sentence names its step") {
  const std::string sentence = "the gradient norm of step 3 is not a number, first seen in the backward of layer 1";
  for (const bool locate : {true, false}) {
    const auto with = [&](non_finite what, std::vector<std::int64_t> bad) {
      return same<llama, mesh<dp>>({}, tiny, {.plan = steps(7, {.on_non_finite = what, .locate = locate}), .bad = bad});
    };
    for (const non_finite what : {non_finite::skip, non_finite::zero, non_finite::stop}) {
      const seen s = with(what, {3});
      CHECK((s.text.find(sentence) != std::string::npos) == locate);
      CHECK(s.text.find("the gradient norm of step 3 is not a number") != std::string::npos);
      CHECK((s.text.find("zeroed") != std::string::npos) == (what == non_finite::zero));
      CHECK(ahead(s) >= 2);
    }
    with(non_finite::skip, {1, 3, 4, 7});
    with(non_finite::zero, {1, 3, 4, 7});
  }
  const seen ranks = same<llama, mesh<dp, tp>, zero3>(
      {.dp = 2, .tp = 2}, tiny, {.plan = steps(6, {.on_non_finite = non_finite::zero}), .bad = {3}},
      sgd{.nesterov = true});
  CHECK(ranks.text.find(sentence) != std::string::npos);
}

TEST_CASE("a step ahead: one without a target, and one whose data can't be read") {
  same<llama, mesh<dp>>({}, tiny, {.plan = steps(5, {.on_non_finite = non_finite::skip}), .empty = 3});
  const seen stopped = same<llama, mesh<dp>>({}, tiny, {.plan = steps(5), .empty = 3});
  CHECK(stopped.text.find("no token of step 3 has a target") != std::string::npos);
  const seen gone = same<llama, mesh<dp>>({}, tiny, {.plan = steps(5), .fails = 4});
  CHECK(gone.text.find("the data of step 4 is gone") != std::string::npos);
  CHECK(gone.text.find("\"step\":3") != std::string::npos);  // its line was written first
  // Behind a bad step: that is skipped and told, or is what ends the run.
  for (const bool locate : {true, false})
    for (const non_finite what : {non_finite::skip, non_finite::zero, non_finite::stop}) {
      const seen both = same<llama, mesh<dp>>(
          {}, tiny, {.plan = steps(5, {.on_non_finite = what, .locate = locate}), .bad = {3}, .fails = 4});
      CHECK(both.text.find(what == non_finite::stop ? "the gradient norm of step 3" : "the data of step 4") !=
            std::string::npos);
    }
}

TEST_CASE("a step ahead: validations, statistics of the units, an end by a callback or when asked, drain it") {
  training plan = steps(9, {.every = 4});
  plan.validate_every = 3, plan.validation_sequences = 8;
  const seen s = same<llama, mesh<dp>>({}, tiny, {.plan = plan});
  CHECK(s.text.find("validation_loss") != std::string::npos);
  CHECK(ahead(s) == 5);  // not 3, 6 and 9, which validate, nor 7, before a step with statistics
  struct noting : training_callback {
    std::string* notes;
    std::int64_t end_at;
    bool late;
    void after_validation(std::int64_t step, double) override { *notes += detail::text("v", step, ' '); }
    std::string after_step(const step_report& r) override {
      *notes += detail::text("s", r.step, ' ');
      return r.step == end_at ? "it is good enough" : "";
    }
    bool may_come_late(std::int64_t) override { return late; }
    void after_run(const training_result& r) override { *notes += "end: " + r.ended; }
  };
  for (const bool late : {false, true}) {
    noting n;
    n.end_at = late ? 0 : 5, n.late = late;
    training ended = steps(7);
    const seen e = same<llama, mesh<dp>>({}, tiny, {.plan = ended, .callbacks = [&](std::string& to) {
                                                      n.notes = &to;
                                                      return std::vector<training_callback*>{&n};
                                                    }});
    CHECK(e.text.find(late ? "s6 s7 end" : "s4 s5 end: it is good enough") != std::string::npos);
    CHECK(ahead(e) == (late ? 6 : 0));
  }
  std::atomic<bool> stop = true;
  training asked = steps(7);
  asked.stop = &stop;
  CHECK(same<llama, mesh<dp>>({}, tiny, {.plan = asked}).text.find("it was asked to stop") != std::string::npos);
  // Of several ranks, those whose queues run behind have given one step more when they hear of it.
  const auto last_step = [&]<class S>(std::type_identity<S>) {
    const seen two = run<llama, S>({.dp = 2}, tiny, adamw{.lr = 1e-2}, {.plan = asked});
    CHECK(two.text.find("it was asked to stop") != std::string::npos);
    return two.text.find("\"step\":3") == std::string::npos ? two.text.find("\"step\":2") != std::string::npos ? 2 : 1
                                                            : 3;
  };
  CHECK(last_step(std::type_identity<strategy<mesh<dp>>>()) == 1);
  CHECK(last_step(std::type_identity<strategy<mesh<dp>, late_backend>>()) == 2);
}

// A run with checkpoints, and another from one that was taken in its midst.
template <class S>
std::string with_checkpoints() {
  const weft_test::temporary_folder folder;
  std::string out;
  for (const bool again : {false, true})
    launch<S>({},
              [&](context& ctx) {
                llama<S> model(ctx, tiny);
                trainer t(ctx, model, adamw{.lr = 1e-2});
                if (again) load_checkpoint(ctx, t, folder / "all/step-00000004");
                early_stop stop({.validations = 9});
                keep_checkpoints saves(ctx, t, {.folder = folder / (again ? "rest" : "all"), .every = 4, .keep = 9});
                training plan = steps(10);
                plan.begin = again ? 4 : 0, plan.batch = 8, plan.micro_batches = 2, plan.print = false,
                plan.callbacks = {&saves, &stop};
                const training_result r = t.run(text_dataset(ctx, rhyme()), plan);
                std::string mine = detail::text(std::bit_cast<std::int64_t>(r.loss), ' ', t.state().batches, ' ',
                                                t.state().loss_scale, ' ', t.state().skipped_steps, '\n');
                t.store().each_parameter([&](const parameter_record&, auto, auto weight) {
                  for (const auto x : weight) mine.append(reinterpret_cast<const char*>(&x), sizeof x);
                });
                if constexpr (S::backend::queue::runs_behind)
                  CHECK(std::count_if(ctx.queue<late_backend>().left().begin(), ctx.queue<late_backend>().left().end(),
                                      [](std::size_t n) { return n > 150; }) >= 1);
                if (ctx.is_first()) out += mine;
              },
              {.check = false});
  for (const char* name : {"all/step-00000004", "all/step-00000008", "all/step-00000010", "rest/step-00000008"})
    CHECK(std::filesystem::exists(folder / name));
  CHECK(out.substr(0, out.size() / 2) == out.substr(out.size() / 2));
  return out;
}

TEST_CASE("a step ahead: checkpoints are of their steps, and a run goes on from one") {
  using now = strategy<mesh<dp>, zero1, fp16_from_above>;
  using late = strategy<mesh<dp>, zero1, fp16_from_above, late_backend>;
  CHECK(with_checkpoints<now>() == with_checkpoints<late>());
}

}  // namespace
