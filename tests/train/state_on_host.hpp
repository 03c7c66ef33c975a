// A training whose optimizer's state lies in the host's memory while kernels run on a device, beside the same with all
// on the device, and beside its plan: the same bits, and two chunks in the state's place. Invariant: chunks are so
// small that a bucket has several.
#pragma once

#include <filesystem>

#include <weft/plan/training.hpp>
#include <weft/train/checkpoint.hpp>

#include "../temporary.hpp"
#include "small_training.hpp"

namespace weft_test {
using namespace weft;

/// What a rank of such a run held, and all its bits.
struct rank_of_run {
  std::vector<std::uint64_t> bits{};
  memory_ledger own{}, state{};
  std::int64_t skipped = 0;
  memory_ledger offloaded{};
};

template <class S>
struct trial_of_state {
  degrees mesh;
  llama_config config;
  training plan{
      .steps = 8, .batch = 4, .micro_batches = 2, .schedule = {.floor = 1}, .validation_sequences = 0, .print = false};

  std::string load{}, save{};  // folders of checkpoints, where they are named

  /// chunk: 0, or the elements of one. hasty: copies come as early as they may, where a queue knows how.
  template <class Optimizer>
  std::vector<rank_of_run> run(const Optimizer& optimizer, std::int64_t chunk = 0, bool hasty = false) const {
    std::vector<rank_of_run> all(static_cast<std::size_t>(mesh.product()));
    launch<S>(mesh,
              [&](context& ctx) {
                auto& queue = ctx.queue<typename S::backend>();
                if (chunk > 0) ctx.keep_optimizer_state_in({}, chunk);
                if constexpr (requires { queue.hasty_beside; }) queue.hasty_beside = hasty;
                llama<S> model(ctx, config);
                trainer t(ctx, model, optimizer);
                if constexpr (requires { S::projections::stored_as; }) t.store().load_parameters(frozen);
                if (!load.empty()) load_checkpoint(ctx, t, load);
                queue.synchronize();
                const int before = waits_of(queue);
                const training_result r = t.run(text_dataset(ctx, rhyme()), plan);
                CHECK((plan.watch.every > 0 || waits_of(queue) == before));
                CHECK(ctx.memory.ledger().pinned.value() == queue.pinned_bytes());
                CHECK(queue.pinned_bytes() >= 2 * 4096);  // of uploaded batches
                if (!save.empty()) save_checkpoint(ctx, t, save);
                rank_of_run& own = all[static_cast<std::size_t>(ctx.rank().here())];
                own = {{std::bit_cast<std::uint64_t>(r.loss)},
                       ctx.memory.ledger(),
                       ctx.optimizer_ledger(),
                       r.skipped,
                       ctx.offload_ledger()};
                t.store().each_parameter([&](const parameter_record&, auto, auto weight) {
                  for (const auto x : weight) own.bits.push_back(std::bit_cast<std::uint64_t>(static_cast<double>(x)));
                });
                t.store().each_stored([&](const stored_parameter& p) {
                  add_bits(ctx, p.first, own.bits), add_bits(ctx, p.second, own.bits);
                });
              },
              {.check = false});
    CHECK(all[0].bits.size() > 1000);
    return all;
  }

  template <class Optimizer>
  void check_state_on_host(const Optimizer& optimizer, std::int64_t chunk) const {
    const auto kept = [](const memory_ledger& m) { return m.peak[std::size_t(memory::optimizer)]; };
    constexpr bool weights_are_master = std::same_as<typename S::precision::compute, typename S::precision::master>;
    const std::size_t arrays = weights_are_master ? 2 : 3;  // two moments, and master weights
    const std::size_t room = 2 * arrays * 4 * static_cast<std::size_t>(chunk);
    const auto plain = run(optimizer), late = run(optimizer, chunk), hasty = run(optimizer, chunk, true);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const rank_of_run &before = plain[i], &after = late[i];
      CAPTURE(i);
      CHECK(after.bits == before.bits);
      CHECK(hasty[i].bits == before.bits);  // which shows the waits that late copies don't need
      CHECK(after.skipped == before.skipped);
      CHECK(before.skipped < plan.steps - 1);
      CHECK(kept(before.own) > 4 * room);
      CHECK(kept(after.own) == 0);
      CHECK(after.state.total == kept(before.own));
      CHECK(after.state.pinned.value() == after.state.reserved);
      CHECK(after.state.reserved >= after.state.total);
      const int rank = static_cast<int>(i);
      const auto on_host = [&](context& ctx) { ctx.keep_optimizer_state_in({}, chunk); };
      const auto planned = plan_training<llama, S>(config, mesh, plan, rank, optimizer, {}, on_host),
                 without = plan_training<llama, S>(config, mesh, plan, rank, optimizer);
      CHECK(planned.memory.peak == after.own.peak);
      CHECK(planned.memory.peak_total == after.own.peak_total);
      CHECK(planned.optimizer_elsewhere == after.state.peak_total);
      CHECK(planned.memory.peak_total + kept(before.own) == without.memory.peak_total + room);
    }
  }

  /// What one with all on the device has saved, one with its state on the host goes on from, and the other way round;
  /// and statistics of moments are the same.
  template <class Optimizer>
  void check_files(const Optimizer& optimizer, std::int64_t chunk) const {
    const temporary_folder folder;
    const auto plain = run(optimizer);
    std::string watched[2];
    for (const bool first_on_host : {false, true}) {
      auto first = *this, second = *this;
      first.save = second.load = folder / (first_on_host ? "of the host" : "of the device");
      first.plan.steps = second.plan.begin = plan.steps / 2;
      first.run(optimizer, first_on_host ? chunk : 0);
      second.plan.watch.every = 1, second.plan.folder = folder / (first_on_host ? "device" : "host");
      std::filesystem::create_directory(second.plan.folder);
      const auto got = second.run(optimizer, first_on_host ? 0 : chunk);
      for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i].bits == plain[i].bits);
      watched[first_on_host] = read_file(second.plan.folder + "/monitor.jsonl");
    }
    CHECK(watched[0].find("moment") != std::string::npos);
    CHECK(watched[0] == watched[1]);
  }

 private:
  static void add_bits(context& ctx, const local_array& moment, std::vector<std::uint64_t>& bits) {
    if (!moment) return;
    std::vector<std::byte> copy;
    const local_array x = weft::detail::host_view<typename S::backend>(ctx, moment, copy);
    for (std::int64_t i = 0; i < x.elements(); ++i) bits.push_back(std::bit_cast<std::uint32_t>(x.as<float>()[i]));
  }
  static std::optional<std::vector<float>> frozen(const parameter_record& p) {
    if (p.stored.format == weight_format::plain) return {};
    std::vector<float> numbers(static_cast<std::size_t>(p.global.elements()));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 17) / 100 - 0.08f;
    return numbers;
  }
  static int waits_of(const auto& queue) {
    if constexpr (requires { queue.waits; })
      return queue.waits;
    else
      return 0;
  }
};

}  // namespace weft_test
