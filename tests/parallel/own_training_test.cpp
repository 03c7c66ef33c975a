// An optimizer, a loss, a model and a schedule of one's own train as on one rank under every sharding policy: the
// program of examples/05_own_training.cpp in fp64, and a loop of one's own over a parameter store.
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#define main example_main
#include "../../examples/05_own_training.cpp"
#undef main

namespace {

template <class Sharding, class... Axes>
using wide = strategy<mesh<dp, Axes..., tp>, Sharding, fp64>;

using weights = std::map<std::string, std::vector<double>>;

// Three steps of two micro-batches by hand, without a trainer; returns the weights as global arrays.
template <class S>
weights own_loop(const degrees& ranks) {
  weights out;
  std::mutex lock;
  launch<S>(ranks, [&](context& ctx) {
    small_model<S> model(ctx);
    store_config config = config_of<typename S::sharding>();
    config.moments = momentum_sgd::moments;
    parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(), config);
    model.use(store);
    const counting data{&ctx};
    for (int step = 1; step <= 3; ++step) {
      store.begin_step(2);
      for (int micro = 0; micro < 2; ++micro) {
        const auto batch = data.train<token_ids<S>>(step, micro * 8, 8, 4);
        backward(smoothed_loss{}(model(batch.tokens), batch.targets).sum);
        store.end_micro_batch();
      }
      store.finish_gradients();
      const double tokens = 2 * 8 * 4, norm = store.gradient_norm() / tokens;
      store.update(momentum_sgd{}, {step, 0.5, clip_factor(norm, 1.0) / tokens});
    }
    std::int64_t kept = 0;
    store.each_stored([&](const stored_parameter& p) {
      CHECK(bool(p.first));
      CHECK(!p.second);  // no memory for a moment that the optimizer doesn't keep
      kept += p.first.elements();
    });
    CHECK(kept > 0);
    store.each_parameter([&](const parameter_record& p, const auto*, const auto* weight) {
      const std::lock_guard guard(lock);
      auto& all = out[p.name];
      all.resize(static_cast<std::size_t>(p.global.elements()), NAN);
      for (std::int64_t i = 0; i < p.local.elements(); ++i)
        if (const std::int64_t at = weft::detail::global_index(p, i); at >= 0)
          all[static_cast<std::size_t>(at)] = double(weight[i]);
    });
    model.release();
  });
  return out;
}

double worst(const weights& a, const weights& b) {
  REQUIRE(a.size() == b.size());
  double off = 0;
  for (const auto& entry : a)
    for (std::size_t i = 0; i < entry.second.size(); ++i) {
      const double d = std::abs(entry.second[i] - b.at(entry.first)[i]);
      off = std::isfinite(d) ? std::max(off, d) : INFINITY;
    }
  return off;
}

}  // namespace

TEST_CASE("SGD with momentum and a loss of one's own, in a trainer: every sharding policy equals one rank") {
  const double one = train<wide<replicated>>({}, 20);
  CHECK(one < 6);
  const auto same = [&](double loss) { CHECK(loss == doctest::Approx(one).epsilon(1e-10)); };
  const degrees four{.dp = 2, .tp = 2};
  same(train<wide<replicated>>(four, 20));
  same(train<wide<zero1>>(four, 20));
  same(train<wide<zero2>>(four, 20));
  same(train<wide<zero3>>(four, 20));
  same(train<wide<hybrid, fsdp>>(degrees{.dp = 2}.with<fsdp>(2), 20));
}

TEST_CASE("they take mixed precision") {
  const double one = train<strategy<mesh<dp, tp>, replicated, bf16_mixed>>({}, 20);
  CHECK(train<strategy<mesh<dp, tp>, zero2, bf16_mixed>>({.dp = 2, .tp = 2}, 20) == doctest::Approx(one).epsilon(0.01));
}

TEST_CASE("the same by a loop of one's own over a parameter store, weight by weight") {
  const weights one = own_loop<wide<replicated>>({});
  CHECK(one.size() == 6);
  const degrees four{.dp = 2, .tp = 2};
  CHECK(worst(one, own_loop<wide<replicated>>(four)) < 1e-12);
  CHECK(worst(one, own_loop<wide<zero1>>(four)) < 1e-12);
  CHECK(worst(one, own_loop<wide<zero2>>(four)) < 1e-12);
  CHECK(worst(one, own_loop<wide<zero3>>(four)) < 1e-12);
  CHECK(worst(one, own_loop<wide<hybrid, fsdp>>(degrees{.dp = 2}.with<fsdp>(2))) < 1e-12);
}

TEST_CASE("a store made for other moments than the optimizer's refuses its step") {
  using S = wide<replicated>;
  launch<S>({}, [](context& ctx) {
    small_model<S> model(ctx);
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
    store.begin_step(1);
    store.end_micro_batch();
    store.finish_gradients();
    CHECK_THROWS_WITH_AS(store.update(momentum_sgd{}, {1, 0.1, 1}),
                         doctest::Contains("the optimizer keeps 1 moments, and this store was made for 2"), failure);
  });
}
