// Training on the CUDA kernels, run on the host, beside the same on the CPU (beside_cpu.hpp); one of them under a
// sanitizer, where a kernel's threads, which are fibers, are slowest.
#include <backend/cuda/host_queue.hpp>
#include <backend/cuda/lazy_queue.hpp>

#include <weft/io/file_memory.hpp>
#include <weft/plan/training.hpp>

#include "beside_cpu.hpp"
#include "generate_beside_cpu.hpp"
#include "sample.hpp"

using namespace weft;
using namespace weft_test;
using testing::host_cuda_backend;

namespace {
const llama_config tiny_llama{
    .layers = 1, .hidden = 16, .heads = 2, .kv_heads = 1, .ffn = 24, .vocab = 256, .max_seq = 8};
const gpt2_config tiny_gpt2{.layers = 1, .hidden = 16, .heads = 2, .vocab = 256, .max_seq = 8, .dropout = 0.1};
}  // namespace

TEST_CASE("the kernels of CUDA: a Llama in bf16, selective recomputation") {
  check_beside_cpu<host_cuda_backend, llama, bf16_mixed, checkpoint_selective>(tiny_llama, of_16_bits);
}

TEST_CASE("the kernels of CUDA: a GPT-2 in fp32, dropout" * doctest::skip(sanitized)) {
  check_beside_cpu<host_cuda_backend, gpt2>(tiny_gpt2, of_fp32);
}

// Behind queues that run as late as they may, and in a memory of their own.
TEST_CASE("the kernels of CUDA: a Llama on eight ranks of one device, zero3 x tp x pp, full recomputation, bf16" *
          doctest::skip(sanitized)) {
  auto two_layers = tiny_llama;
  two_layers.layers = 2, two_layers.kv_heads = 2;
  check_ranks_beside_cpu<lazy_cuda_backend, llama, mesh<pp, dp, tp>, zero3, bf16_mixed, checkpoint_full>(
      {.dp = 2, .tp = 2, .pp = 2}, two_layers, of_16_bits);
}

TEST_CASE("the kernels of CUDA: text token by token, on two ranks of one device" * doctest::skip(sanitized)) {
  auto bold = tiny_llama;
  bold.kv_heads = 2, bold.init_stddev = 0.3;
  check_text_beside_cpu<lazy_cuda_backend>({.tp = 2}, bold, 4);
}

TEST_CASE("the kernels of CUDA: a Llama whose ranks share its key and value head" * doctest::skip(sanitized)) {
  check_ranks_beside_cpu<lazy_cuda_backend, llama, mesh<dp, tp>, zero3, bf16_mixed, shared_kv<>>(
      {.dp = 2, .tp = 2}, tiny_llama, of_16_bits);
}

namespace {
// What a rank holds of a training in fp16 whose first steps overflow, and its bits.
struct rank_of_run {
  std::vector<std::uint64_t> bits{};
  memory_ledger own{}, state{};
};
using on_two_ranks = strategy<mesh<dp>, zero1, fp16_from_above, lazy_cuda_backend>;
const degrees two{.dp = 2};
const auto llama_with_two_heads = [] {
  auto config = tiny_llama;
  config.kv_heads = 2;
  return config;
}();
const training of_eight_steps{.steps = 8, .batch = 4, .micro_batches = 2, .validation_sequences = 0, .print = false};

// On ranks of one device, whose uploads are staged: nothing that a run gives waits for what it gave before.
template <class Optimizer>
std::vector<rank_of_run> eight_steps(const Optimizer& optimizer, const training& plan, std::int64_t chunk = 0,
                                     bool hasty = false) {
  std::vector<rank_of_run> all(2);
  launch<on_two_ranks>(two,
                       [&](context& ctx) {
                         if (chunk > 0) ctx.keep_optimizer_state_in({}, chunk);
                         auto& queue = ctx.queue<lazy_cuda_backend>();
                         queue.hasty_beside = hasty;
                         llama<on_two_ranks> model(ctx, llama_with_two_heads);
                         trainer t(ctx, model, optimizer);
                         queue.synchronize();
                         const int before = queue.waits;
                         const training_result r = t.run(text_dataset(ctx, rhyme()), plan);
                         CHECK(queue.waits == before);
                         CHECK(ctx.memory.ledger().pinned.value() == queue.pinned_bytes());
                         CHECK(queue.pinned_bytes() >= 4 * 4096);  // of uploaded batches
                         CHECK(r.skipped > 0);
                         CHECK(r.skipped < 7);
                         rank_of_run& own = all[static_cast<std::size_t>(ctx.rank().here())];
                         own = {{std::bit_cast<std::uint64_t>(r.loss)}, ctx.memory.ledger(), ctx.optimizer_ledger()};
                         t.store().each_parameter([&](const parameter_record&, auto, auto weight) {
                           for (const auto x : weight)
                             own.bits.push_back(std::bit_cast<std::uint64_t>(static_cast<double>(x)));
                         });
                       },
                       {.check = false});
  CHECK(all[0].bits.size() > 1000);
  CHECK(all[0].bits == all[1].bits);
  return all;
}

// The state on the host, in chunks of which a bucket has several: the same bits, the device has two chunks in its
// place.
template <class Optimizer>
void check_state_on_host(const Optimizer& optimizer, const std::vector<rank_of_run>& plain) {
  constexpr std::int64_t chunk = 208;
  static constexpr auto optimizer_bytes = [](const memory_ledger& m) { return m.peak[std::size_t(memory::optimizer)]; };
  const auto offloaded = eight_steps(optimizer, of_eight_steps, chunk);
  // Copies that come as early as they may show the waits that late ones don't need.
  CHECK(eight_steps(optimizer, of_eight_steps, chunk, true)[0].bits == offloaded[0].bits);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const rank_of_run &before = plain[rank], &after = offloaded[rank];
    CHECK(after.bits == before.bits);
    CHECK(optimizer_bytes(before.own) > 10 * 2 * 3 * 4 * chunk);
    CHECK(optimizer_bytes(after.own) == 0);
    CHECK(after.state.total == optimizer_bytes(before.own));
    CHECK(after.state.pinned.value() == after.state.reserved);
    CHECK(after.state.reserved >= after.state.total);
    const auto planned =
        plan_training<llama, on_two_ranks>(llama_with_two_heads, two, of_eight_steps, static_cast<int>(rank), optimizer,
                                           {}, [](context& ctx) { ctx.keep_optimizer_state_in({}, chunk); });
    CHECK(planned.memory.peak_total == after.own.peak_total);
    CHECK(planned.memory.peak == after.own.peak);
    CHECK(planned.optimizer_elsewhere == after.state.peak_total);
    const auto without = plan_training<llama, on_two_ranks>(llama_with_two_heads, two, of_eight_steps,
                                                            static_cast<int>(rank), optimizer);
    // Master weights and two moments, of the number of elements in a chunk.
    CHECK(planned.memory.peak_total - without.memory.peak_total + optimizer_bytes(before.own) == 2 * 3 * 4 * chunk);
  }
}
}  // namespace

TEST_CASE(
    "the kernels of CUDA: a run gives each step before it knows of the one before, on two ranks of one device; "
    "the optimizer's state on the host" *
    doctest::skip(sanitized)) {
  struct at_once : training_callback {};
  at_once each;
  auto not_late = of_eight_steps;
  not_late.callbacks = {&each};
  const auto late = eight_steps(adamw{.lr = 1e-2}, of_eight_steps);
  CHECK(eight_steps(adamw{.lr = 1e-2}, not_late)[0].bits == late[0].bits);
  check_state_on_host(adamw{.lr = 1e-2}, late);
}

TEST_CASE("the kernels of CUDA: Muon's state on the host" * doctest::skip(sanitized)) {
  const by_shape optimizer{muon{.lr = 1e-2}, adamw{.lr = 1e-2}};
  check_state_on_host(optimizer, eight_steps(optimizer, of_eight_steps));
}

TEST_CASE("a file for a device's optimizer state is refused") {
  planned_rank<on_two_ranks> one(two, 0);
  CHECK_THROWS_WITH_AS(one.ctx().keep_optimizer_state_in(file_memory("/tmp")),
                       doctest::Contains("write ctx.keep_optimizer_state_in({})"), failure);
}
