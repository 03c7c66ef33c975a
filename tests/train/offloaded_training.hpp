// A training whose layers' inputs lie in the host's memory between forward and backward, beside the same without and
// beside its plan: the same bits in less of the device's memory. Invariant: a rank has several micro-batches in flight.
#pragma once

#include "state_on_host.hpp"

namespace weft_test {
using namespace weft;

inline constexpr std::size_t activations = std::size_t(memory::activations);

/// `kept`: of each rank, the most inputs of layers that it has on the host at once.
template <class Backend, class Checkpointing, class... Policies>
void check_offloaded(const degrees& mesh, std::int64_t layers, const std::vector<std::size_t>& kept) {
  using plain = strategy<Policies..., Checkpointing, Backend>;
  using moved = strategy<Policies..., offloaded<Checkpointing>, Backend>;
  const llama_config config{
      .layers = layers, .hidden = 16, .heads = 2, .kv_heads = 2, .ffn = 24, .vocab = 256, .max_seq = 8};
  const auto on = [&]<class S>(std::type_identity<S>) {
    trial_of_state<S> out{mesh, config};
    out.plan.steps = 2, out.plan.micro_batches = 4;
    return out;
  };
  const auto there = on(std::type_identity<moved>());
  const adamw optimizer{.lr = 1e-2};
  const auto before = on(std::type_identity<plain>()).run(optimizer), late = there.run(optimizer),
             hasty = there.run(optimizer, 0, true);
  const std::size_t input = 16 * 8 * sizeof(typename plain::precision::compute);  // one sequence a micro-batch
  for (std::size_t i = 0; i < before.size(); ++i) {
    CAPTURE(i);
    CHECK(late[i].bits == before[i].bits);
    CHECK(hasty[i].bits == before[i].bits);  // which shows the waits that late copies don't need
    CHECK(before[i].offloaded.peak_total == 0);
    CHECK(late[i].offloaded.peak_total == kept[i] * input);
    CHECK(late[i].offloaded.total == 0);
    CHECK(late[i].own.peak[activations] + (i == 0) <= before[i].own.peak[activations]);  // the last has one in flight
    const auto planned = plan_training<llama, moved>(config, mesh, there.plan, static_cast<int>(i), optimizer);
    CHECK(planned.memory.peak == late[i].own.peak);
    CHECK(planned.memory.peak_total == late[i].own.peak_total);
    CHECK(planned.offloaded == late[i].offloaded.peak_total);
  }
}

}  // namespace weft_test
