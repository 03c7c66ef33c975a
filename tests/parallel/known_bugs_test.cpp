// Bugs that other systems had, each as a test that would fail here if we had it. docs/known_bugs.md lists them all,
// those too that are tested elsewhere.
#include <cmath>

#include "comm/watch.hpp"
#include "parallel/equals_serial.hpp"

namespace {
using namespace weft;
using weft_test::check_equal, weft_test::fp64_gradient, weft_test::fp64_loss, weft_test::task;

using plain = strategy<mesh<dp, tp>, fp64>;
using sequence = strategy<mesh<dp, tp>, fp64, sequence_parallel>;
using sharded = strategy<mesh<dp, tp>, fp64, zero3, sequence_parallel>;
using staged = strategy<mesh<pp, dp, tp>, fp64, zero1>;
using nested = strategy<mesh<dp, fsdp, tp>, fp64, hybrid, sequence_parallel>;

template <class S>
weft_test::output run(const degrees& d, const task& t = {{.batch = 4, .steps = 2}}) {
  return weft_test::train<S>(d, t);
}

/// Every weight as a model is born with it, by global index.
template <class S>
std::map<std::string, std::vector<double>> born(const degrees& d) {
  std::map<std::string, std::vector<double>> out;
  std::mutex lock;
  launch<S>(d, [&](context& ctx) {
    llama<S> model(ctx, task{}.model);
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<typename S::sharding>());
    store.each_parameter([&](const parameter_record& p, auto, auto weight) {
      const std::lock_guard guard(lock);
      auto& all = out[p.name];
      all.resize(std::size_t(p.global.elements()), NAN);
      for (std::int64_t i = 0; i < p.local.elements(); ++i)
        if (const std::int64_t at = p.at.global_index(i); at >= 0) all[std::size_t(at)] = weight[i];
    });
  });
  return out;
}
}  // namespace

TEST_CASE("bug: the loss is off by log(tp) where logits are gathered") {
  using logits_type = tensor<double, dims<batch, vocab>, shard<vocab, tp>>;
  using targets_type = tensor<std::int32_t, dims<batch>>;
  const auto logit = [](std::int64_t i) { return std::sin(double(i) * 1.3) * 2; };
  double expected = 0;
  for (std::int64_t row = 0; row < 6; ++row) {
    double total = 0;
    for (std::int64_t j = 0; j < 8; ++j) total += std::exp(logit(row * 8 + j));
    expected += std::log(total) - logit(row * 8 + row);
  }
  for (const int n : {1, 2, 4, 8})
    launch<plain>({.tp = n}, [&](context& ctx) {
      const auto logits = generate<logits_type>(ctx, {6, 8}, logit);
      const auto targets = generate<targets_type>(ctx, {6}, [](std::int64_t i) { return i; });
      const double cut = item(cross_entropy(logits, targets).sum),
                   gathered = item(cross_entropy(all_gather<tp>(logits), targets).sum);
      CHECK(cut == doctest::Approx(expected).epsilon(1e-13));  // six sums of eight terms, some 1e-15 each
      CHECK(gathered == doctest::Approx(expected).epsilon(1e-13));
    });
}

TEST_CASE("bug: norm gradients are not summed over tp under sequence parallelism") {
  const auto one = run<plain>({}), cut = run<sequence>({.tp = 4}), both = run<sharded>({.dp = 2, .tp = 2});
  for (const char* name : {"layers.0.attention_norm", "layers.1.mlp_norm", "norm"}) {
    CAPTURE(name);
    for (const auto* o : {&cut, &both}) {
      const auto &expected = one.gradients.at(name), &got = o->gradients.at(name);
      REQUIRE(expected.size() == got.size());
      for (std::size_t i = 0; i < expected.size(); ++i)
        CHECK(std::abs(expected[i] - got[i]) <= 1e-10);  // of about 1e-2
    }
  }
}

TEST_CASE("bug: a key projection that all heads share misses a sum over tp") {
  // Multi-query attention's scores: q of each rank's heads with the one k, whose weight every rank holds whole.
  using x_type = tensor<double, dims<batch, hidden>>;
  using q_type = tensor<double, dims<batch, heads, head_dim>, shard<heads, tp>>;
  using w_type = tensor<double, dims<head_dim, hidden>>;
  const auto gradient = [&](int n) {
    std::vector<double> out;
    launch<plain>({.tp = n}, [&](context& ctx) {
      const auto number = [](double by) { return [by](std::int64_t i) { return std::sin(double(i + 1) * by); }; };
      const auto x = generate<x_type>(ctx, {3, 5}, number(0.7));
      const auto q = generate<q_type>(ctx, {3, 8, 4}, number(1.1));
      auto w = generate<w_type>(ctx, {4, 5}, number(1.9)).requires_grad();
      const auto scores = contract<head_dim>(q, contract<hidden>(x, w));  // [batch, heads/tp]
      backward(sum(scores * scores));
      if (ctx.rank() == n - 1) out = on_host(w.grad());
    });
    return out;
  };
  const auto expected = gradient(1);
  for (const int n : {2, 4, 8}) {
    const auto got = gradient(n);
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) <= 1e-12);  // of about 10
  }
}

TEST_CASE("bug: key and value heads shared by groups of queries miss a sum over tp, or are fewer than the ranks") {
  task t{{.batch = 4, .steps = 3}};
  t.model.kv_heads = 2;
  const auto serial = run<plain>({}, t);
  check_equal(serial, run<plain>({.tp = 2}, t), fp64_loss, fp64_gradient);
  check_equal(serial, run<sharded>({.dp = 2, .tp = 2}, t), fp64_loss, fp64_gradient);
  CHECK_THROWS_WITH_AS(run<plain>({.tp = 4}, t), doctest::Contains("2 kv_heads don't divide among tp = 4 ranks"),
                       weft::failure);
}

TEST_CASE("bug: the gradient norm counts a gradient twice along tp, pp or a storage axis, or misses one") {
  const auto check = [](const weft_test::output& o) {
    double squares = 0;
    for (const auto& entry : o.gradients)
      for (const double g : entry.second) squares += g * g;
    CHECK(o.norms.back() == doctest::Approx(std::sqrt(squares)).epsilon(1e-12));
  };
  check(run<plain>({}));
  check(run<plain>({.dp = 2, .tp = 2}));
  check(run<plain>({.tp = 8}));
  check(run<sequence>({.dp = 2, .tp = 4}));
  check(run<sharded>({.dp = 4}));
  check(run<sharded>({.dp = 2, .tp = 4}));
  check(run<nested>(degrees{.dp = 2, .tp = 2}.with<fsdp>(2)));
  check(run<nested>(degrees{.tp = 2}.with<fsdp>(4)));
  task t{{.batch = 4, .steps = 2, .micro_batches = 2}};
  for (const bool tied : {false, true}) {  // tied: both ends of the pipeline hold the embedding
    t.model.tied_embeddings = tied;
    check(run<staged>({.dp = 2, .tp = 2, .pp = 2}, t));
  }
}

TEST_CASE("bug: initialisation changes with the sharding") {
  const auto one = born<plain>({});
  CHECK(one == born<plain>({.dp = 2, .tp = 4}));
  CHECK(one == born<sharded>({.dp = 4, .tp = 2}));
  CHECK(one == born<sharded>({.dp = 7}));
  CHECK(one == born<nested>(degrees{.dp = 2, .tp = 2}.with<fsdp>(2)));
}

TEST_CASE("bug: sizes that don't divide lose their rest, or are read beyond") {
  task t{{.batch = 6, .seq = 9, .steps = 3}};
  t.model = {
      .layers = 2, .hidden = 20, .heads = 2, .ffn = 14, .vocab = 21, .max_seq = 11};  // no unit divides by 16 or 3
  const auto serial = run<plain>({}, t);
  check_equal(serial, run<sharded>({.dp = 3, .tp = 2}, t), fp64_loss, fp64_gradient);
  check_equal(serial, run<nested>(degrees{.dp = 2}.with<fsdp>(3), t), fp64_loss, fp64_gradient);
  check_equal(serial, run<sharded>({.dp = 4}, t), fp64_loss, fp64_gradient);  // two sequences a rank, the last has none

  const auto refused = [&](const char* sentence, const degrees& d, auto&& change) {
    task odd = t;
    change(odd);
    CHECK_THROWS_WITH_AS(run<sharded>(d, odd), doctest::Contains(sentence), weft::failure);
  };
  refused("2 heads don't divide among tp = 4 ranks", {.tp = 4}, [](task&) {});
  refused("15 ffn don't divide among tp = 2 ranks", {.tp = 2}, [](task& o) { o.model.ffn = 15; });
}

TEST_CASE("bug: ranks that call different collectives hang") {
  const watchdog guard("ranks whose work differs", 300);
  task t{{.batch = 4, .steps = 1}};
  const auto uneven = [&]<class S>(const degrees& d, S) {  // rank 1 runs one micro-batch more than the others
    launch<S>(d, [&](context& ctx) {
      llama<S> model(ctx, t.model);
      parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<typename S::sharding>());
      model.use(store);
      const int micro_batches = ctx.rank() == 1 ? 2 : 1;
      store.begin_step(micro_batches);
      for (int m = 0; m < micro_batches; ++m) {
        const auto x = ones<typename llama<S>::ids>(ctx, {t.batch, t.seq});
        backward(cross_entropy(model(x), x).sum);
        store.end_micro_batch();
      }
      store.finish_gradients();
      store.gradient_norm();
    });
  };
  CHECK_THROWS_WITH_AS(uneven({.dp = 2}, sharded{}), doctest::Contains("gradient norm"), weft::failure);
  CHECK_THROWS_WITH_AS(uneven({.tp = 2}, plain{}), doctest::Contains("gradient norm"), weft::failure);
}
