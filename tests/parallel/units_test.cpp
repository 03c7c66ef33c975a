// Units as other models than Llama use them: one alone, one twice in a row, one not at all, two inside one; and
// parameters that a store can't take.
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

using numbers = std::vector<std::vector<double>>;  // by parameter

// Runs `uses(step, in)` on x = 1 of [batch/2, hidden], where in(unit, inner, h) is inner(h) * unit's weight, twice a
// step; two steps. Returns each weight's gradient of the last step, which is exact: all numbers are small integers.
template <class S, class Uses>
numbers train(int units, Uses&& uses) {
  numbers out(static_cast<std::size_t>(units));
  std::mutex lock;
  launch<S>({.dp = 2}, [&](context& ctx) {
    using w_type = weight<S, dims<hidden>>;
    using x_type = basic_tensor<typename S::precision::compute, dims<batch, hidden>, place<shard<batch, dp>>>;
    parameter_registry registry;
    std::vector<w_type> w(static_cast<std::size_t>(units));
    for (int u = 0; u < units; ++u) {
      registry.begin_unit("unit " + std::to_string(u));
      registry.add(ctx, w[static_cast<std::size_t>(u)], "w" + std::to_string(u), {1, {40}}, {0, u + 1.0});
    }
    parameter_store<cpu_backend, typename S::precision> store(ctx, registry, config_of<typename S::sharding>());
    const auto in = [&](int unit, const auto& inner, const auto& x) {
      return in_unit(
          ctx, store, unit, [&](const auto& h) -> x_type { return inner(h) * w[static_cast<std::size_t>(unit)]; }, x);
    };
    const auto x = ones<x_type>(ctx, {2, 40});
    for (int step = 0; step < 2; ++step) {
      store.begin_step(2);
      for (int micro = 0; micro < 2; ++micro) {
        backward(sum(uses(step, in, x)), micro + 1);
        store.end_micro_batch();
      }
      store.finish_gradients();
    }
    std::size_t i = 0;
    store.each_parameter([&](const parameter_record&, auto gradient, auto) {
      const std::lock_guard guard(lock);
      out[i++].assign(gradient.begin(), gradient.end());
    });
  });
  return out;
}

const auto nothing = [](const auto& h) { return h; };
const std::vector<double> all(double x) { return std::vector<double>(40, x); }

// Four rows (two ranks, two micro-batches weighted 1 and 2) add up to 2 * 3 = 6 times the gradient of one element.
template <class S>
void check() {
  SUBCASE("one unit") {
    CHECK(train<S>(1, [](int, const auto& in, const auto& x) { return in(0, nothing, x); })[0] == all(6));
  }
  SUBCASE("one unit twice in a row") {  // x w^2, w = 1
    CHECK(train<S>(1, [](int, const auto& in, const auto& x) { return in(0, nothing, in(0, nothing, x)); })[0] ==
          all(12));
  }
  SUBCASE("a unit that a step doesn't use has no gradient in it") {
    const numbers g = train<S>(3, [](int step, const auto& in, const auto& x) {
      const auto h = in(2, nothing, in(0, nothing, x));
      return step == 0 ? in(1, nothing, h) : h;
    });
    CHECK(g[0] == all(6 * 3));
    CHECK(g[1] == all(0));
    CHECK(g[2] == all(6));
  }
}

struct three_buffers : zero3 {
  static constexpr std::string_view name = "three buffers";
  static constexpr int prefetch = 2;
};
}  // namespace

TEST_CASE("units under replicated") { check<strategy<mesh<dp>, replicated>>(); }
TEST_CASE("units under zero3") { check<strategy<mesh<dp>, zero3>>(); }
TEST_CASE("units under zero3 and mixed precision") { check<strategy<mesh<dp>, zero3, bf16_mixed>>(); }

TEST_CASE("two units inside one, one after the other") {
  const auto uses = [](int, const auto& in, const auto& x) {
    return in(
        0, [&](const auto& h) { return in(2, nothing, in(1, nothing, h)); }, x);  // w0 w1 w2
  };
  for (const numbers& g :
       {train<strategy<mesh<dp>, three_buffers>>(3, uses), train<strategy<mesh<dp>, replicated>>(3, uses)}) {
    CHECK(g[0] == all(6 * 6));
    CHECK(g[1] == all(6 * 3));
    CHECK(g[2] == all(6 * 2));
  }
}

namespace {
struct all_ahead : zero3 {
  static constexpr std::string_view name = "all ahead";
  static constexpr int prefetch = std::numeric_limits<int>::max();
};
}  // namespace

TEST_CASE("a policy that gathers more units ahead than there are has a buffer for each, and gathers each once a step") {
  using S = strategy<mesh<dp>, all_ahead>;
  trace_log log(2);
  launch<S>({.dp = 2},
            [&](context& ctx) {
              parameter_registry registry;
              std::vector<weight<S, dims<hidden>>> w(3);
              for (std::size_t u = 0; u < 3; ++u) {
                registry.begin_unit("unit " + std::to_string(u));
                registry.add(ctx, w[u], "w" + std::to_string(u), {1, {1024}}, {0, 1});
              }
              parameter_store<cpu_backend, fp32> store(ctx, registry, config_of<all_ahead>());
              using x_type = tensor<float, dims<batch, hidden>, shard<batch, dp>>;
              store.begin_step(2);
              for (int micro = 0; micro < 2; ++micro) {
                auto x = ones<x_type>(ctx, {2, 1024});
                for (int u = 0; u < 3; ++u)
                  x = in_unit(
                      ctx, store, u, [&](const auto& h) -> x_type { return h * w[static_cast<std::size_t>(u)]; }, x);
                backward(sum(x));
                store.end_micro_batch();
              }
              store.finish_gradients();
              const std::size_t whole = 4 * 1024, of_gradients = 2 * whole;  // two that take turns
              CHECK(ctx.memory.ledger().current[static_cast<std::size_t>(memory::buffers)] == 3 * whole + of_gradients);
            },
            {.trace = &log, .check = false});
  std::int64_t gathers = 0;
  for (const trace_total& t : log.totals(1)) gathers += std::string(t.operation) == "all_gather" ? t.calls : 0;
  CHECK(gathers == 3);
}

TEST_CASE("parameters that can't be trained are refused by name") {
  using S = strategy<mesh<dp>>;
  const auto make = [](context& ctx, auto w, auto&& use) {
    parameter_registry registry;
    registry.begin_unit("only");
    registry.add(ctx, w, "gain", {1, {8}}, {0, 1});
    use(registry, w);
  };
  using store = parameter_store<cpu_backend, fp32>;
  launch<S>({.dp = 2}, [&](context& ctx) {
    make(ctx, tensor<float, dims<hidden>>(), [&](auto& registry, auto&) {  // invariant: its gradient is whole already
      CHECK_THROWS_WITH_AS(store(ctx, registry, config_of<replicated>()),
                           doctest::Contains("the gradient of parameter gain is not left pending over dp"), failure);
    });
    make(ctx, weight<S, dims<hidden>>(), [&](auto& registry, auto& w) {
      auto again = w;
      CHECK_THROWS_WITH_AS(registry.add(ctx, again, "gain", {1, {8}}, {0, 1}),
                           doctest::Contains("two parameters are named gain"), failure);
      const store held(ctx, registry, config_of<replicated>());
      const auto x = ones<tensor<float, dims<batch, hidden>, shard<batch, dp>>>(ctx, {2, 8});
      CHECK_THROWS_WITH_AS(x * w, doctest::Contains("parameter gain is read outside of its unit"), failure);
    });
    weight<S, dims<hidden>> w;
    parameter_registry empty;
    CHECK_THROWS_WITH_AS(empty.add(ctx, w, "gain", {1, {8}}, {0, 1}), doctest::Contains("begin_unit"), failure);
  });
}

namespace {
// One unit with one weight of ones, over two ranks.
template <class S>
struct one_unit {
  using x_type = tensor<float, dims<batch, hidden>, shard<batch, dp>>;
  context& ctx;
  parameter_registry registry;
  weight<S, dims<hidden>> w;

  explicit one_unit(context& on) : ctx(on) {
    registry.begin_unit("only");
    registry.add(ctx, w, "gain", {1, {8}}, {0, 1});
  }
  x_type ones() const { return weft::ones<x_type>(ctx, {2, 8}); }
  x_type times(unit_hooks& store, const x_type& x) const {
    return in_unit(
        ctx, store, 0, [&](const auto& h) -> x_type { return h * w; }, x);
  }
};
}  // namespace

TEST_CASE("a weight is read only where its unit is gathered") {
  using S = strategy<mesh<dp>, zero3>;
  launch<S>({.dp = 2}, [](context& ctx) {
    one_unit<S> unit(ctx);
    const auto x = unit.ones();
    const auto no_memory = doctest::Contains("parameter gain has no memory: make a parameter store");
    const auto outside = doctest::Contains("parameter gain is read outside of its unit");
    CHECK_THROWS_WITH_AS(x * unit.w, no_memory, failure);
    {
      parameter_store<cpu_backend, fp32> store(ctx, unit.registry, config_of<zero3>());
      CHECK_THROWS_WITH_AS(x * unit.w, outside, failure);
      CHECK(unit.times(store, x).local_share()[0] == 1);
      CHECK_THROWS_WITH_AS(x * unit.w, outside, failure);
    }
    CHECK_THROWS_WITH_AS(x * unit.w, no_memory, failure);
  });
}

TEST_CASE("a unit inside checkpoint, used twice, is summed once") {
  using S = strategy<mesh<dp>, replicated>;
  launch<S>({.dp = 2}, [](context& ctx) {
    one_unit<S> unit(ctx);
    parameter_store<cpu_backend, fp32> store(ctx, unit.registry, config_of<replicated>());
    const auto once = [&](const auto& x) { return unit.times(store, x); };
    for (int step = 0; step < 2; ++step) {
      store.begin_step(1);
      backward(sum(checkpoint(once, checkpoint(once, unit.ones()))));  // x w^2, w = 1, in two rows
      store.end_micro_batch();
      store.finish_gradients();
      store.each_parameter([](const parameter_record&, auto gradient, auto) { CHECK(gradient[0] == 4); });
    }
  });
}

TEST_CASE("more backwards than begin_step was told of are refused") {
  using S = strategy<mesh<dp>, replicated>;
  launch<S>({.dp = 2}, [](context& ctx) {
    one_unit<S> unit(ctx);
    parameter_store<cpu_backend, fp32> store(ctx, unit.registry, config_of<replicated>());
    const auto loss = [&] { return sum(unit.times(store, unit.ones())); };
    store.begin_step(1);
    backward(loss());
    CHECK_THROWS_WITH_AS(backward(loss()), doctest::Contains("tell begin_step() how many micro-batches"), failure);
  });
}
