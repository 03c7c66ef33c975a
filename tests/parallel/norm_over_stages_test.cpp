// The gradient norm where stages are unlike: one has nothing to count, or nothing that is sharded as another's is.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

// The norm that every rank gets. `add(ctx, registry, weights)` makes a stage's parameters, of which each element's
// gradient is 2: the gradient of the sum of w over two micro-batches.
template <class S, class Add>
std::vector<double> norms(const degrees& ranks, Add&& add) {
  std::vector<double> out(std::size_t(ranks.product()));
  launch<S>(ranks, [&](context& ctx) {
    parameter_registry registry;
    registry.held_by_stages(id_of<pp>);
    weight<S, dims<hidden>> whole;
    weight<S, dims<hidden>, shard<hidden, tp>> cut;
    registry.begin_unit("only");
    add(ctx, registry, whole, cut);
    parameter_store<cpu_backend, fp32> store(ctx, registry, config_of<typename S::sharding>());
    for (int step = 0; step < 2; ++step) {
      store.begin_step(1);
      store.before_backward(0, backward_part::all), store.after_backward(0, backward_part::all);  // of nothing
      store.end_micro_batch();
      store.finish_gradients();
      store.each_stored([](const stored_parameter& p) {
        for (std::int64_t i = 0; i < p.gradient.elements(); ++i) p.gradient.as<float>()[i] = 2;
      });
      out[std::size_t(ctx.rank().here())] = store.gradient_norm();
    }
  });
  return out;
}
using wide = strategy<mesh<pp, tp, dp>>;  // stages first: their sums come before those over tp

}  // namespace

TEST_CASE("a stage whose only parameter is another stage's takes part in the norm") {
  const auto all = norms<wide>({.pp = 2}, [](context& ctx, parameter_registry& registry, auto& whole, auto&) {
    registry.add(ctx, whole, "w", {1, {8}}, {0, 1}).counted = ctx.index<pp>() == 0;
  });
  for (const double norm : all) CHECK(norm == doctest::Approx(std::sqrt(8 * 4.0)));
}
TEST_CASE("a stage without a parameter takes part in the norm") {
  const auto all = norms<wide>({.pp = 3}, [](context& ctx, parameter_registry& registry, auto& whole, auto&) {
    if (ctx.index<pp>() != 1) registry.add(ctx, whole, "w" + std::to_string(ctx.index<pp>().here()), {1, {8}}, {0, 1});
  });
  for (const double norm : all) CHECK(norm == doctest::Approx(std::sqrt(16 * 4.0)));
}
TEST_CASE("a stage without a sharded parameter has the same norm as one with") {
  const auto all =
      norms<wide>({.tp = 2, .pp = 2}, [](context& ctx, parameter_registry& registry, auto& whole, auto& cut) {
        if (ctx.index<pp>() == 0)
          registry.add(ctx, cut, "cut", {1, {8}}, {0, 1});
        else
          registry.add(ctx, whole, "whole", {1, {8}}, {0, 1});
      });
  for (const double norm : all) CHECK(norm == doctest::Approx(std::sqrt(16 * 4.0)));
}
