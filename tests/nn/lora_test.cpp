// LoRA beside every projection of a model: at first the model is the one without, only adapters train, and every mesh
// and sharding policy equals one rank.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/nn/gpt2.hpp>
#include <weft/op/create.hpp>
#include <weft/op/to_host.hpp>
#include <weft/testing/strategy.hpp>

using namespace weft;

namespace {

template <class Sharding, class... More>
using adapted = strategy<mesh<dp, tp>, Sharding, fp64, lora<3, 6>, More...>;

const testing::training_task task{
    {.steps = 3, .micro_batches = 2},
    {.layers = 2, .hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6, .ffn = 18, .vocab = 47, .max_seq = 16}};

template <class S>
void equals_one_rank(const degrees& ranks) {
  static const auto one = testing::train<adapted<replicated>>({}, task);
  for (const std::string& line : testing::disagreements(one, testing::train<S>(ranks, task), 1e-10, 1e-8))
    FAIL_CHECK(line);
}

}  // namespace

TEST_CASE("LoRA in a Llama: every sharding policy, tp and sequence parallelism equal one rank") {
  equals_one_rank<adapted<replicated>>({.dp = 2, .tp = 2});
  equals_one_rank<adapted<zero1>>({.dp = 2, .tp = 2});
  equals_one_rank<adapted<zero3>>({.dp = 2, .tp = 2});
  equals_one_rank<adapted<zero3, sequence_parallel, checkpoint_full>>({.tp = 2});
  equals_one_rank<strategy<mesh<dp, pp, tp>, zero2, fp64, lora<3, 6>>>({.dp = 2, .pp = 2});
}

TEST_CASE("at first a model with adapters is the one without") {
  const auto loss = []<class S>(S) { return testing::train<S>({}, task).losses; };
  const auto with = loss(adapted<replicated>{}), without = loss(strategy<mesh<dp, tp>, replicated, fp64>{});
  CHECK(with[0] == doctest::Approx(without[0]).epsilon(1e-12));
  CHECK(with[2] != doctest::Approx(without[2]).epsilon(1e-4));
  CHECK(with[2] < with[0]);
}

TEST_CASE("a projection with an adapter is W x + alpha / rank * B A x, and only the adapter has gradients") {
  using S = strategy<mesh<dp, tp>, replicated, fp64, lora<2, 3>>;
  launch<S>({}, [](context& ctx) {
    parameter_registry registry;
    registry.begin_unit("all");
    linear<S, dims<ffn>, dims<hidden>, ffn> project;
    project.add_to(registry, ctx, "up", {1, {4}}, {1, {3}}, 0.5);
    CHECK(registry.units()[0].parameters.size() == 3);
    parameter_store<cpu_backend, fp64> store(ctx, registry, config_of<replicated>());
    std::map<std::string, std::vector<double>> numbers;
    store.load_parameters([&](const parameter_record& p) {
      auto& all = numbers[p.name];
      for (std::int64_t i = 0; i < p.global.elements(); ++i) all.push_back(std::sin(double(i) + double(p.name.size())));
      return all;
    });
    const auto x = generate<batch_tensor<S, double, dims<batch, hidden>>>(ctx, {2, 3},
                                                                          [](std::int64_t i) { return double(i) - 2; });
    store.before_forward(0, false);
    const auto y = on_host(all_gather<tp>(all_gather<dp>(project(x))));
    store.after_forward(0);
    const auto &w = numbers["up"], &a = numbers["up.lora_a"], &b = numbers["up.lora_b"];
    for (std::size_t row = 0; row < 2; ++row)
      for (std::size_t o = 0; o < 4; ++o) {
        double wanted = 0;
        for (std::size_t i = 0; i < 3; ++i) {
          double combined = w[o * 3 + i];
          for (std::size_t r = 0; r < 2; ++r) combined += 1.5 * b[o * 2 + r] * a[r * 3 + i];
          wanted += combined * (double(row * 3 + i) - 2);
        }
        CHECK(y[row * 4 + o] == doctest::Approx(wanted).epsilon(1e-12));
      }
    // A factor that was assigned to is what was given.
    project.beside.a = full<std::remove_cvref_t<decltype(project.beside.a)>>(ctx, {2, 3}, 1).requires_grad();
    store.before_forward(0, false);
    const auto z = on_host(all_gather<tp>(all_gather<dp>(project(x))));
    store.after_forward(0);
    const double sum_of_x = -2 - 1 + 0;
    CHECK(z[0] == doctest::Approx(w[0] * -2 + w[1] * -1 + 1.5 * (b[0] + b[1]) * sum_of_x).epsilon(1e-12));
  });
}

TEST_CASE("adapters alone have moments and master weights, in a GPT-2 too") {
  using S = strategy<mesh<dp>, zero2, bf16_mixed, lora<4>>;
  std::int64_t adapters = 0;
  launch<S>({.dp = 2}, [&](context& ctx) {
    gpt2<S> model(ctx, {.layers = 2, .hidden = 32, .heads = 4, .vocab = 64, .max_seq = 16});
    parameter_store<cpu_backend, bf16_mixed> store(ctx, model.registry(), config_of<zero2>());
    std::int64_t own = 0;
    store.each_stored([&](const stored_parameter& p) {
      CHECK(p.record.trained == (p.record.name.find(".lora_") != std::string::npos));
      if (p.record.trained) own += p.weight.elements();
    });
    const auto all = static_cast<std::int64_t>(ctx.memory.ledger().current[std::size_t(memory::optimizer)]);
    CHECK(all >= 12 * own);  // a master weight and two moments each; and padding
    CHECK(all < 12 * own + 12 * 16 * 40);
    if (ctx.is_first()) adapters = own;
  });
  CHECK(adapters == 2 * 4 * (3 * (32 + 32) + (32 + 32) + 2 * (32 + 128)) / 2);
}

TEST_CASE("biases of queries, keys and values: counted, registered, and every mesh equals one rank") {
  testing::training_task biased = task;
  biased.model.qkv_bias = true;
  using S = strategy<mesh<dp, tp>, zero3, fp64>;
  const auto one = testing::train<S>({}, biased);
  CHECK(one.gradients.count("layers.1.key_bias") == 1);
  std::int64_t counted = 0;
  for (const auto& entry : one.gradients) counted += static_cast<std::int64_t>(entry.second.size());
  CHECK(counted == biased.model.parameters());
  for (const std::string& line :
       testing::disagreements(one, testing::train<S>({.dp = 2, .tp = 2}, biased), 1e-10, 1e-8))
    FAIL_CHECK(line);
  CHECK(one.losses[2] != doctest::Approx(testing::train<S>({}, task).losses[2]).epsilon(1e-6));
}
