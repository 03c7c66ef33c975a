// An optimizer, a loss, a model and a schedule of one's own train as on one rank under every sharding policy: the
// program of examples/05_own_training.cpp in fp64, and a loop of one's own over a parameter store.
#include "by_hand.hpp"

namespace {
using namespace weft_test;

template <class S>
numbers own_loop(const degrees& ranks) {
  static_assert(config_of<typename S::sharding, momentum_sgd>().moments == momentum_sgd::moments);
  return train_by_hand<small_model<S>>(ranks, momentum_sgd{.lr = 0.5}, nothing{}, [](context&, auto& store) {
    std::int64_t kept = 0;
    store.each_stored([&](const stored_parameter& p) {
      CHECK(bool(p.first));
      CHECK(!p.second);  // no memory for a moment that the optimizer doesn't keep
      kept += p.first.elements();
    });
    CHECK(kept > 0);
  });
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
  const numbers one = own_loop<wide<replicated>>({});
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
    CHECK_THROWS_WITH_AS(store.update(momentum_sgd{}, {1, 0.1, 1}),
                         doctest::Contains("the optimizer keeps 1 moments, and this store was made for 2"), failure);
  });
}
