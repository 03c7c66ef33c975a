// What monitor.jsonl says of a run's units, against loops over whole tensors, and against the run of one rank.
#include <cmath>
#include <map>
#include <mutex>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <weft/weft.hpp>

#include "../temporary.hpp"

using namespace weft;

namespace {

const llama_config tiny{.layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 64, .vocab = 256, .max_seq = 16};
const adamw plain_adam{.lr = 1e-2};
constexpr std::int64_t sequences = 8, tokens = sequences * 16;

std::shared_ptr<const text_corpus> rhyme() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "one two three four five, once I caught a fish alive; ";
  return std::make_shared<const text_corpus>("rhyme", text);
}

array_statistics of(const std::vector<double>& x) {
  array_statistics s;
  for (const double v : x) s.join({v * v, v, v, 1, 0});
  return s;
}

using by_unit = std::map<std::string, std::map<std::string, array_statistics>>;  // [unit][kind]

// Whole tensors, put together from what ranks hold.
struct collected {
  std::mutex lock;
  std::map<std::string, std::vector<double>> units;
  template <class T>
  void put(const std::string& unit, std::map<std::string, std::vector<double>>& parameters, const parameter_record& p,
           const local_share<T>& local, double scale) {
    const std::lock_guard guard(lock);
    auto& all = parameters[unit + '\n' + p.name];
    all.resize(static_cast<std::size_t>(p.global.elements()));
    for (std::int64_t i = 0; i < p.local.elements(); ++i)
      if (const std::int64_t at = p.at.global_index(i); at >= 0)
        all[static_cast<std::size_t>(at)] = static_cast<double>(local[i]) * scale;
  }
};

struct measured_run {
  by_unit told, direct;  // by monitor.jsonl; from whole tensors
  std::vector<double> losses;
};

by_unit read_statistics(const std::string& path, std::int64_t step, std::size_t lines_wanted) {
  by_unit out;
  const std::string lines = read_file(path);
  std::size_t count = 0;
  for (std::size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1, ++count) {
    const auto line = nlohmann::json::parse(lines.substr(at, lines.find('\n', at) - at));
    CHECK(line.at("step") == step);
    for (const auto& [kind, s] : line.items())
      if (s.is_object())
        out[line.at("unit")][kind] = {s.at("norm").get<double>() * s.at("norm").get<double>(), s.at("min"), s.at("max"),
                                      s.at("elements"), s.at("not_finite")};
  }
  CHECK(count == lines_wanted);
  return out;
}

// A step, then one that is watched: its weights and moments are those that the first step left.
template <class S>
measured_run run(const degrees& ranks, const llama_config& config = tiny) {
  const weft_test::temporary_folder folder;
  const double mean = 1.0 / static_cast<double>(sequences * config.max_seq);
  measured_run out;
  collected all;
  std::map<std::string, std::vector<double>> weights, first, gradients;
  launch<S>(ranks, [&](context& ctx) {
    llama<S> model(ctx, config);
    trainer t(ctx, model, plain_adam);
    const text_dataset data(ctx, rhyme());
    const auto unit_of = [&](const parameter_record& p) {
      for (const parameter_unit& u : model.registry().units())
        for (const parameter_record& q : u.parameters)
          if (&p == &q) return u.name;
      return std::string();
    };
    training plan{.steps = 1,
                  .batch = sequences,
                  .micro_batches = 2,
                  .clip_norm = 0,
                  .validation_sequences = 0,
                  .print = false,
                  .folder = folder.path()};
    t.run(data, plan);
    t.store().each_parameter([&](const parameter_record& p, auto g, auto w) {
      all.put(unit_of(p), weights, p, w, 1);
      all.put(unit_of(p), first, p, g, mean);
    });
    plan.watch.every = 1;
    const auto result = t.run(data, plan);
    if (ctx.is_first()) out.losses = {result.first_loss};
    t.store().each_parameter(
        [&](const parameter_record& p, auto g, auto) { all.put(unit_of(p), gradients, p, g, mean); });
  });
  out.told = read_statistics(folder / "monitor.jsonl", 1, 4);
  const auto join = [&](const char* kind, const auto& parameters, auto&& map) {
    for (const auto& [key, values] : parameters) {
      std::vector<double> mapped = values;
      for (double& v : mapped) v = map(v);
      out.direct[key.substr(0, key.find('\n'))][kind].join(of(mapped));
    }
  };
  const auto same = [](double v) { return v; };
  join("weight", weights, same);
  join("gradient", gradients, same);
  join("first_moment", first, [](double g) { return (1 - plain_adam.beta1) * g; });
  join("second_moment", first, [](double g) { return (1 - plain_adam.beta2) * g * g; });
  return out;
}

// `relative`: of norms, and of extremes with respect to the largest element.
void check_same(const by_unit& got, const by_unit& want, double relative) {
  for (const auto& entry : want)
    for (const auto& one : entry.second) {
      CAPTURE(entry.first);
      CAPTURE(one.first);
      const array_statistics &s = got.at(entry.first).at(one.first), &w = one.second;
      const double largest = std::max(std::fabs(w.lowest), std::fabs(w.highest));
      CHECK(largest > 0);
      CHECK(std::sqrt(s.squares) == doctest::Approx(std::sqrt(w.squares)).epsilon(relative));
      CHECK(std::fabs(s.lowest - w.lowest) <= relative * largest);
      CHECK(std::fabs(s.highest - w.highest) <= relative * largest);
      CHECK(s.elements == w.elements);
      CHECK(s.not_finite == 0);
    }
}

const measured_run& serial() {
  static const measured_run one = run<strategy<mesh<dp, tp>>>({});
  return one;
}

template <class S>
void check_strategy(const degrees& ranks) {
  const measured_run r = run<S>(ranks);
  check_same(r.told, r.direct, 1e-6);  // both of the same numbers in fp32; moments were rounded once more
  check_same(r.told, serial().told,
             1e-4);  // two steps of fp32 sums in another order, the first of them normalised by AdamW
}

}  // namespace

TEST_CASE("statistics of one rank are those of its tensors") {
  CHECK(serial().told.size() == 4);
  for (const char* unit : {"embedding", "layer 0", "layer 1", "head"}) CHECK(serial().told.at(unit).size() == 5);
  check_same(serial().told, serial().direct, 1e-6);
  CHECK(serial().told.at("layer 0").at("activation").elements == tokens * tiny.hidden);
  CHECK(serial().told.at("head").at("activation").elements == tokens * tiny.vocab);
}

TEST_CASE("activations are what units pass on, over all micro-batches") {
  launch<strategy<mesh<dp, tp>>>({}, [](context& ctx) {
    llama<strategy<mesh<dp, tp>>> model(ctx, tiny);
    trainer t(ctx, model, plain_adam);
    const text_dataset data(ctx, rhyme());
    t.run(data, {.steps = 1,
                 .batch = sequences,
                 .micro_batches = 2,
                 .clip_norm = 0,
                 .validation_sequences = 0,
                 .print = false});
    std::vector<double> table, embedded, logits;
    t.store().each_parameter([&](const parameter_record& p, auto, auto w) {
      if (p.name == "embedding") table.assign(w.begin(), w.end());
    });
    const recording off(ctx, nullptr);
    const auto batch =
        data.train<llama<strategy<mesh<dp, tp>>>::ids>(2, 0, sequences, 16);  // step 2 of the trainer's life
    for (std::int64_t i = 0; i < tokens; ++i) {
      const auto row = table.begin() + batch.tokens.local_share()[i] * tiny.hidden;
      embedded.insert(embedded.end(), row, row + tiny.hidden);
    }
    const auto own = local_share_on_host(model(batch.tokens));  // of one rank: all
    logits.assign(own.begin(), own.end());
    // Rows of a batch don't meet in the forward, so micro-batches compute the same numbers up to the order of sums.
    check_same(serial().told, {{"embedding", {{"activation", of(embedded)}}}, {"head", {{"activation", of(logits)}}}},
               1e-5);
  });
}

TEST_CASE("statistics are the same for every sharding, each element counted once") {
  SUBCASE("replicated") { check_strategy<strategy<mesh<dp, tp>>>({.dp = 2, .tp = 2}); }
  SUBCASE("zero1") { check_strategy<strategy<mesh<dp, tp>, zero1>>({.dp = 4}); }
  SUBCASE("zero3") {
    check_strategy<strategy<mesh<dp, tp>, zero3, checkpoint_full, sequence_parallel>>({.dp = 2, .tp = 2});
  }
  SUBCASE("pipeline") { check_strategy<strategy<mesh<dp, pp>, zero1>>({.dp = 2, .pp = 2}); }
  SUBCASE("embeddings tied across a pipeline's ends") {
    llama_config tied = tiny;
    tied.tied_embeddings = true;
    const measured_run r = run<strategy<mesh<dp, pp>, zero1>>({.pp = 2}, tied);
    check_same(r.told, r.direct, 1e-6);
    CHECK(r.told.at("embedding").at("gradient").elements == tiny.vocab * tiny.hidden);
    CHECK(r.told.at("embedding").at("activation").elements == tokens * tiny.hidden);  // the last stage uses it too
  }
  SUBCASE("uneven: padding is left out") {
    llama_config odd = tiny;
    odd.vocab = 259, odd.max_seq = 15;
    const measured_run one = run<strategy<mesh<dp, tp>>>({}, odd);
    CHECK(one.told.at("head").at("activation").elements == sequences * 15 * 259);
    check_same(one.told, one.direct, 1e-6);
    const measured_run cut =
        run<strategy<mesh<dp, tp>, zero3, checkpoint_none, sequence_parallel>>({.dp = 2, .tp = 2}, odd);
    check_same(cut.told, cut.direct, 1e-6);
    check_same(cut.told, one.told, 1e-3);  // AdamW's first step magnifies the rounding of gradients near its eps
  }
  SUBCASE("hybrid") { check_strategy<strategy<mesh<dp, fsdp>, hybrid>>(degrees{.dp = 2}.with<fsdp>(2)); }
}

TEST_CASE("watching changes nothing, and happens at its cadence") {
  using S = strategy<mesh<dp, tp>, zero1>;
  const auto train = [](std::int64_t every, std::vector<std::int64_t>& steps) {
    const weft_test::temporary_folder folder;
    std::vector<double> numbers;
    launch<S>({.dp = 2}, [&](context& ctx) {
      llama<S> model(ctx, tiny);
      trainer t(ctx, model, plain_adam);
      const auto r = t.run(
          text_dataset(ctx, rhyme()),
          {.steps = 5, .batch = 4, .clip_norm = 0, .print = false, .folder = folder.path(), .watch = {.every = every}});
      CHECK(ctx.observer == nullptr);
      if (ctx.is_first()) numbers = {r.loss, r.validation_loss};
    });
    if (every > 0) {
      const std::string lines = read_file(folder / "monitor.jsonl");
      for (std::size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1)
        steps.push_back(nlohmann::json::parse(lines.substr(at, lines.find('\n', at) - at)).at("step"));
    }
    CHECK(std::filesystem::exists(folder / "monitor.jsonl") == (every > 0));
    return numbers;
  };
  std::vector<std::int64_t> none, watched;
  CHECK(train(0, none) == train(2, watched));
  CHECK(watched == std::vector<std::int64_t>{2, 2, 2, 2, 4, 4, 4, 4});
}
