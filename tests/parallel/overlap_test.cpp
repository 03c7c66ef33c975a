// What a policy overlaps with computing isn't waited for: a unit's weights arrive while the one before computes.
#include <chrono>

#include <doctest/doctest.h>

#include <weft/comm/paced.hpp>
#include <weft/weft.hpp>

namespace {
using namespace weft;

constexpr int units = 8;
constexpr double latency_us = 60e3;
constexpr auto computing = std::chrono::milliseconds(80);

struct far_apart {
  static constexpr link_speed of(std::string_view axis) { return axis == "dp" ? link_speed{latency_us} : link_speed{}; }
};
struct nothing_ahead : zero3 {
  static constexpr std::string_view name = "nothing ahead";
  static constexpr int prefetch = 0;
};

// Microseconds that rank 0 waits for weights in one forward through all units, each of which computes for a while.
template <class Sharding>
double waited() {
  using S = strategy<mesh<dp>, Sharding, paced<threads, far_apart, virtual_clock>>;
  double sum = 0;
  launch<S>({.dp = 2},
            [&](context& ctx) {
              using x_type = tensor<float, dims<batch, hidden>, shard<batch, dp>>;
              parameter_registry registry;
              std::vector<weight<S, dims<hidden>>> w(units);
              for (int u = 0; u < units; ++u) {
                registry.begin_unit("unit " + std::to_string(u));
                registry.add(ctx, w[std::size_t(u)], "w" + std::to_string(u), {1, {16}}, {0, 1.0});
              }
              parameter_store<cpu_backend, fp32> store(ctx, registry, config_of<Sharding>());
              x_type x = ones<x_type>(ctx, {2, 16});
              const std::int64_t begin = virtual_clock::now();
              for (int u = 0; u < units; ++u)
                x = in_unit(
                    ctx, store, u,
                    [&](const x_type& h) -> x_type {
                      virtual_clock::advance(computing);
                      return h * w[std::size_t(u)];
                    },
                    x);
              if (ctx.rank() == 0)
                sum = double(virtual_clock::now() - begin - units * std::chrono::nanoseconds(computing).count()) / 1000;
              CHECK(local_share_on_host(x)[0] == 1);
            },
            {.record = false, .check = false});
  return sum;
}

}  // namespace

TEST_CASE("zero3 gathers the next unit's weights while one computes, so the first's alone are waited for") {
  CHECK(waited<zero3>() == latency_us);
}
TEST_CASE("without prefetch every unit's weights are waited for") {
  CHECK(waited<nothing_ahead>() == units * latency_us);
}
