// What a policy overlaps with computing isn't waited for: a unit's weights arrive while the one before computes, and a
// unit's gradients are summed while the next one's are computed.
#include <doctest/doctest.h>

#include "slow_layer.hpp"

namespace {
using namespace weft;

constexpr int units = 8;
constexpr double latency = 60;  // milliseconds of a transfer along dp

struct far_apart {
  static constexpr link_speed of(std::string_view axis) {
    return axis == "dp" ? link_speed{latency * 1000} : link_speed{};
  }
};
// A unit's parameters, 16 floats with their padding, take as long to be summed by two ranks.
struct narrow {
  static constexpr link_speed of(std::string_view axis) {
    return axis == "dp" ? link_speed{.bytes_per_us = 16 * sizeof(float) / (latency * 1000)} : link_speed{};
  }
};
// Everything on every rank, and two axes along which gradients are summed.
struct replicated_twice : replicated {
  static constexpr std::string_view name = "replicated twice";
  using axis = fsdp;
  using batch_axes = tag_list<dp, fsdp>;
};
struct nothing_ahead : zero3 {
  static constexpr std::string_view name = "nothing ahead";
  static constexpr int prefetch = 0;
};

// Milliseconds that rank 0 waits in one forward through all units, and in its backward until the gradients are whole.
struct waits {
  double forward, backward;
};
template <class Sharding, class Links = far_apart>
waits waited(int along_fsdp = 1) {
  using S = strategy<mesh<dp, fsdp>, Sharding, paced<threads, Links, virtual_clock>>;
  weft_test::each_layer_takes = {80, 50, 30};
  waits out{};
  launch<S>(degrees{.dp = 2}.with<fsdp>(along_fsdp),
            [&](context& ctx) {
              using x_type = batch_tensor<S, float, dims<batch, hidden>>;
              parameter_registry registry;
              std::vector<weight<S, dims<ffn, hidden>>> w(units);
              for (int u = 0; u < units; ++u) {
                registry.begin_unit("unit " + std::to_string(u));
                registry.add(ctx, w[std::size_t(u)], "w" + std::to_string(u), {2, {1, 8}}, {0, 1.0});
              }
              parameter_store<cpu_backend, fp32> store(ctx, registry, config_of<Sharding>());
              const auto since = [&](std::int64_t begin) {  // milliseconds in which this rank computed nothing
                std::int64_t idle = virtual_clock::now() - begin;
                for (const weft_test::work& w : std::exchange(weft_test::done, {})) idle -= w.end - w.begin;
                return double(idle) / 1e6;
              };
              weft_test::done.clear();
              store.begin_step(1);
              x_type x = ones<x_type>(ctx, {4, 8}).requires_grad();
              const std::int64_t begin = virtual_clock::now();
              for (int u = 0; u < units; ++u)
                x = in_unit(
                    ctx, store, u, [&](const x_type& h) { return weft_test::slowly(h, w[std::size_t(u)]); }, x);
              const double forward = since(begin);
              const std::int64_t turn = virtual_clock::now();
              backward(sum(x));
              store.end_micro_batch();
              store.finish_gradients();
              if (ctx.rank() == 0) out = {forward, since(turn)};
            },
            {.record = true, .check = false});
  return out;
}

}  // namespace

TEST_CASE("zero3 waits for the first unit's weights and for the last gradients, and for nothing between") {
  const waits w = waited<zero3>();
  CHECK(w.forward == latency);
  CHECK(w.backward == latency);
}
TEST_CASE("without prefetch every unit's weights are waited for") {
  const waits w = waited<nothing_ahead>();
  CHECK(w.forward == units * latency);
  CHECK(w.backward == units * latency);  // the last unit's are still there; the first one's gradients come last
}
TEST_CASE("sums along a second axis travel while other units are in their backward") {
  CHECK(waited<hybrid, narrow>(2).backward == latency);                // the last unit's
  CHECK(waited<replicated_twice, narrow>(2).backward == 2 * latency);  // which is padded for two ranks on each of them
}
