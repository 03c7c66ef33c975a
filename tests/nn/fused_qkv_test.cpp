// Queries, keys and values by one contraction: from the same numbers as three projections, the same losses and
// gradients, step after step, on every mesh; and under Muon too, which takes a matrix for each head.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/nn/gpt2.hpp>
#include <weft/optim/muon.hpp>
#include <weft/testing/strategy.hpp>

using namespace weft;

namespace {

using numbers = std::vector<double>;

// Six query heads in two groups, so that a group is three; a layer more than there are stages.
const testing::training_task task{{.steps = 3, .micro_batches = 2},
                                  {.layers = 3,
                                   .hidden = 12,
                                   .heads = 6,
                                   .kv_heads = 2,
                                   .head_dim = 4,
                                   .ffn = 18,
                                   .vocab = 47,
                                   .max_seq = 16,
                                   .qkv_bias = true}};

// A parameter's numbers, by its name.
numbers numbers_of(const std::string& name, std::int64_t n) {
  std::uint64_t seed = 1;
  for (const char c : name) seed = seed * 131 + static_cast<std::uint64_t>(c);
  numbers out;
  for (std::int64_t i = 0; i < n; ++i)
    out.push_back(philox{seed, 5}.normal(static_cast<std::uint64_t>(i)) / 4 +
                  (name.find("norm") != std::string::npos ? 1 : 0));
  return out;
}

// [kv_heads, group + 2, ...] from queries [kv_heads * group, ...], keys and values [kv_heads, ...].
numbers fused(const numbers& query, const numbers& key, const numbers& value, std::size_t groups) {
  numbers out;
  const auto append = [&](const numbers& from, std::size_t group) {
    const std::size_t each = from.size() / groups;
    for (std::size_t i = 0; i < each; ++i) out.push_back(from[group * each + i]);
  };
  for (std::size_t g = 0; g < groups; ++g) append(query, g), append(key, g), append(value, g);
  return out;
}
// Where a fused parameter's name has "qkv".
std::string part_of(std::string name, const char* part) { return name.replace(name.find("qkv"), 3, part); }

numbers begin(const parameter_record& p) {
  const std::int64_t n = p.global.elements();
  if (p.name.find("qkv") == std::string::npos) return numbers_of(p.name, n);
  const std::int64_t lanes = p.global[1], head = n / lanes;
  return fused(numbers_of(part_of(p.name, "query"), head * (lanes - 2)), numbers_of(part_of(p.name, "key"), head),
               numbers_of(part_of(p.name, "value"), head), static_cast<std::size_t>(p.global[0]));
}

// The gradients of three projections as those of one.
testing::training_output as_fused(testing::training_output of, std::size_t groups) {
  std::map<std::string, numbers> out;
  for (const auto& entry : of.gradients) {
    const std::string& name = entry.first;
    const numbers& gradient = entry.second;
    const std::size_t at = name.find("query");
    if (at == std::string::npos && name.find("key") == std::string::npos && name.find("value") == std::string::npos)
      out[name] = gradient;
    if (at == std::string::npos) continue;
    const auto other = [&](const char* part) { return of.gradients.at(std::string(name).replace(at, 5, part)); };
    out[std::string(name).replace(at, 5, "qkv")] = fused(gradient, other("key"), other("value"), groups);
  }
  of.gradients = std::move(out);
  return of;
}

void same(const testing::training_output& apart, const testing::training_output& together, std::size_t groups) {
  for (const std::string& line : testing::disagreements(as_fused(apart, groups), together, 1e-12, 1e-11))
    FAIL_CHECK(line);
}
testing::training_task begun() {
  testing::training_task t = task;
  t.begin = begin;
  return t;
}
template <class S>
void same_as_apart(std::initializer_list<degrees> meshes) {
  static const auto apart = testing::train<strategy<mesh<dp>, fp64>>({}, begun());
  for (const degrees& d : meshes) {
    CAPTURE(d.dp);
    CAPTURE(d.tp);
    CAPTURE(d.pp);
    same(apart, testing::train<S>(d, begun()), 2);
  }
}

}  // namespace

TEST_CASE("a Llama with fused queries, keys and values is the one with three projections") {
  same_as_apart<strategy<mesh<dp, pp, tp>, fp64, fused_qkv<>>>(
      {{}, {.dp = 2}, {.tp = 2}, {.pp = 2}, {.dp = 2, .tp = 2, .pp = 2}});
}
TEST_CASE("fused, with weights sharded, the sequence too, and layers run again") {
  same_as_apart<strategy<mesh<dp, pp, tp>, zero3, sequence_parallel, checkpoint_full, fp64, fused_qkv<>>>(
      {{}, {.dp = 2, .tp = 2}, {.tp = 2, .pp = 2}});
  same_as_apart<strategy<mesh<dp, tp>, zero1, checkpoint_selective, fp64, fused_qkv<>>>({{.dp = 2, .tp = 2}});
}

TEST_CASE("a GPT-2 with fused queries, keys and values is the one with three projections") {
  const gpt2_config small{.layers = 2, .hidden = 16, .heads = 4, .vocab = 47, .max_seq = 16, .dropout = 0.1};
  using fused = strategy<mesh<dp, tp>, zero2, fp64, fused_qkv<>>;
  const testing::training_task t = begun();
  const auto apart = testing::train_model<gpt2<strategy<mesh<dp>, fp64>>>({}, small, t);
  same(apart, testing::train_model<gpt2<fused>>({}, small, t), 4);
  same(apart, testing::train_model<gpt2<fused>>({.dp = 2, .tp = 2}, small, t), 4);
}

TEST_CASE("Muon takes a matrix for each head and lane: its steps are those of three projections") {
  const by_shape both{muon{.lr = 1e-2}, adamw{.lr = 1e-2}};
  const auto trained = [&]<class S>(S, const degrees& d) { return testing::train<S>(d, begun(), both); };
  const auto apart = trained(strategy<mesh<dp>, fp64>{}, {});
  using fused = strategy<mesh<dp, tp>, zero1, fp64, fused_qkv<>>;
  same(apart, trained(fused{}, {}), 2);
  same(apart, trained(fused{}, {.dp = 2, .tp = 2}), 2);
}

TEST_CASE("an adapter beside a fused projection: one for all three, and every mesh equals one rank") {
  using S = strategy<mesh<dp, tp>, zero2, fp64, fused_qkv<lora<3, 6>>>;
  testing::training_task t = task;
  const auto one = testing::train<S>({}, t);
  CHECK(one.gradients.count("layers.1.qkv") == 0);
  CHECK(one.gradients.at("layers.1.qkv.lora_a").size() == 3 * 12);
  CHECK(one.gradients.at("layers.1.qkv.lora_b").size() == 2 * 5 * 4 * 3);
  for (const std::string& line : testing::disagreements(one, testing::train<S>({.dp = 2, .tp = 2}, t), 1e-10, 1e-8))
    FAIL_CHECK(line);
  t.steps = 1;
  const auto without = testing::train<strategy<mesh<dp>, fp64, fused_qkv<>>>({}, t);
  CHECK(one.losses[0] == doctest::Approx(without.losses[0]).epsilon(1e-12));
}

TEST_CASE("a fused model has as many parameters, born as wide") {
  using S = strategy<mesh<dp>, fused_qkv<>>;
  launch<S>({}, [](context& ctx) {
    llama_config config = task.model;
    config.hidden = 128, config.head_dim = 32;
    llama<S> model(ctx, config);
    parameter_store<cpu_backend, fp32> store(ctx, model.registry(), config_of<replicated>());
    std::int64_t all = 0;
    store.each_parameter([&](const parameter_record& p, auto, auto w) {
      all += p.global.elements();
      if (p.name != "layers.0.qkv") return;
      double squares = 0;
      for (std::int64_t i = 0; i < p.global.elements(); ++i) squares += double(w[i]) * double(w[i]);
      CHECK(std::sqrt(squares / double(p.global.elements())) == doctest::Approx(config.init_stddev).epsilon(0.02));
    });
    CHECK(all == config.parameters());
  });
}
