// Steps of AdamW over a matrix that tp cuts unevenly, a vector, and biases, from gradients that are whole numbers, so
// that their sums have the same bits on every mesh; and what a store keeps then, by global index.
#pragma once

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace weft_test {

using moment_bits = std::map<std::string, std::vector<int>>;

/// The bits of both moments of each parameter after `steps` steps. chunk: above 0, the state lies in the host's memory,
/// and goes to a device so many elements at a time.
template <class S>
moment_bits rounded_moments(const weft::degrees& ranks, int steps = 5, std::int64_t chunk = 0, std::size_t biases = 2) {
  using namespace weft;
  using backend = typename S::backend;
  using x_type = basic_tensor<bf16, dims<batch, ffn, hidden>, place<shard<batch, dp>, shard<ffn, tp>>, backend>;
  constexpr std::int64_t rows = 7, columns = 37;
  moment_bits out;
  std::mutex lock;
  launch<S>(ranks, [&](context& ctx) {
    if (chunk > 0) ctx.keep_optimizer_state_in({}, chunk);
    parameter_registry registry;
    weight<S, dims<ffn, hidden>, shard<ffn, tp>> matrix;
    weight<S, dims<hidden>> vector;  // unused
    std::vector<weight<S, dims<hidden>>> bias(biases);
    registry.begin_unit("unit");
    registry.add(ctx, matrix, "matrix", {2, {rows, columns}}, {0.5});
    registry.add(ctx, vector, "vector", {1, {columns}}, {0, 1});
    for (std::size_t i = 0; i < biases; ++i)
      registry.add(ctx, bias[i], "bias " + std::to_string(i), {1, {columns}}, {0, 1});
    parameter_store<backend, typename S::precision> store(ctx, registry, config_of<typename S::sharding>());
    for (int step = 1; step <= steps; ++step) {
      store.begin_step(1);
      const auto x = generate<x_type>(ctx, {4, rows, columns}, [&](std::int64_t i) {
        return bf16(static_cast<float>((i * i + step * i) % 13 - 6));
      });
      const auto unit = [&](const x_type& in) -> x_type {
        x_type y = in * matrix;
        for (const auto& b : bias) y = y + b;
        return y;
      };
      backward(sum(in_unit(ctx, store, 0, unit, x)));
      store.end_micro_batch();
      store.finish_gradients();
      store.step(adamw{}.at(step, 1e-2));
    }
    store.each_stored([&](const stored_parameter& p) {
      int moment = 0;
      for (const local_array& kept : {p.first, p.second}) {
        CHECK(kept.type == dtype::bf16);
        CHECK((chunk == 0 || ctx.optimizer_ledger().total >= static_cast<std::size_t>(kept.bytes())));
        std::vector<std::byte> copy;
        const bf16* const numbers = weft::detail::host_view<backend>(ctx, kept, copy).template as<bf16>();
        std::vector<std::uint16_t> bits;
        for (std::int64_t i = 0; i < kept.elements(); ++i) bits.push_back(std::bit_cast<std::uint16_t>(numbers[i]));
        const std::lock_guard guard(lock);
        std::vector<int>& all = out[p.record.name + (moment++ ? " second" : " first")];
        all.resize(static_cast<std::size_t>(p.record.global.elements()), -1);
        for (std::size_t i = 0; i < bits.size(); ++i) {
          const std::int64_t at = p.record.at.global_index(p.begin + static_cast<std::int64_t>(i));
          if (at < 0) continue;
          int& one = all[static_cast<std::size_t>(at)];
          CHECK((one == -1 || one == bits[i]));  // ranks that keep the same
          one = bits[i];
        }
      }
    });
  });
  return out;
}

}  // namespace weft_test
