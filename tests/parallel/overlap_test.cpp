// What a policy overlaps with computing isn't waited for: a unit's weights arrive while the one before computes.
#include <chrono>
#include <thread>

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
  using S = strategy<mesh<dp>, Sharding, paced<threads, far_apart>>;
  trace_log log(2);
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
              for (int u = 0; u < units; ++u)
                x = in_unit(
                    ctx, store, u,
                    [&](const x_type& h) -> x_type {
                      std::this_thread::sleep_for(computing);
                      return h * w[std::size_t(u)];
                    },
                    x);
              CHECK(local_share_on_host(x)[0] == 1);
            },
            {.record = false, .trace = &log, .check = false});
  double sum = 0;
  int gathers = 0;
  for (const trace_event& e : log.events(0))
    if (e.axis == "dp" && e.operation == std::string("all_gather"))
      sum += e.wait_us >= 0 ? e.end_us - e.wait_us : 0, ++gathers;
  CHECK(gathers >= units);
  return sum;
}

}  // namespace

TEST_CASE("zero3 gathers the next unit's weights while one computes") {
  constexpr double hidden_us = (units - 1) * latency_us;
  double fell = 0;
  for (int attempt = 0; attempt < 5 && !(fell > 0.9 * hidden_us); ++attempt)  // a busy machine delays ranks
    fell = waited<nothing_ahead>() - waited<zero3>();
  CHECK(fell > 0.9 * hidden_us);
}
TEST_CASE("without prefetch every unit's weights are waited for") {
  CHECK(waited<nothing_ahead>() >= 0.99 * units * latency_us);
}
