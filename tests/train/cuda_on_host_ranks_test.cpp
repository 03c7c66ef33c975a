// Training on ranks of one device by the CUDA kernels, run on the host behind queues that run as late as they may, in a
// memory of their own, beside the same on the CPU (beside_cpu.hpp).
#include <backend/cuda/lazy_queue.hpp>

#include "beside_cpu.hpp"
#include "sample.hpp"

using namespace weft;
using namespace weft_test;

namespace {
const llama_config tiny_llama{
    .layers = 1, .hidden = 16, .heads = 2, .kv_heads = 1, .ffn = 24, .vocab = 256, .max_seq = 8};
}  // namespace

TEST_CASE("the kernels of CUDA: a Llama on eight ranks of one device, zero3 x tp x pp, full recomputation, bf16" *
          doctest::skip(sanitized)) {
  auto two_layers = tiny_llama;
  two_layers.layers = 2, two_layers.kv_heads = 2;
  check_ranks_beside_cpu<lazy_cuda_backend, llama, mesh<pp, dp, tp>, zero3, bf16_mixed, checkpoint_full>(
      {.dp = 2, .tp = 2, .pp = 2}, two_layers, of_16_bits);
}

TEST_CASE("the kernels of CUDA: a Llama whose ranks share its key and value head" * doctest::skip(sanitized)) {
  check_ranks_beside_cpu<lazy_cuda_backend, llama, mesh<dp, tp>, zero3, bf16_mixed, shared_kv<>>(
      {.dp = 2, .tp = 2}, tiny_llama, of_16_bits);
}

// On ranks of one device, whose uploads are staged: nothing that a run gives waits for what it gave before.
TEST_CASE("the kernels of CUDA: a run gives each step before it knows of the one before, on two ranks of one device" *
          doctest::skip(sanitized)) {
  using S = strategy<mesh<dp>, zero1, fp16_from_above, lazy_cuda_backend>;
  struct at_once : training_callback {};
  auto two_heads = tiny_llama;
  two_heads.kv_heads = 2;
  std::vector<std::uint64_t> bits[2];
  for (const bool late : {false, true})
    launch<S>({.dp = 2},
              [&](context& ctx) {
                llama<S> model(ctx, two_heads);
                trainer t(ctx, model, adamw{.lr = 1e-2});
                at_once each;
                training plan{.steps = 8, .batch = 4, .micro_batches = 2, .validation_sequences = 0, .print = false};
                if (!late) plan.callbacks = {&each};
                auto& queue = ctx.queue<lazy_cuda_backend>();
                queue.synchronize();
                const int before = queue.waits;
                const training_result r = t.run(text_dataset(ctx, rhyme()), plan);
                CHECK(queue.waits == before);
                CHECK(ctx.memory.ledger().pinned.value() == queue.pinned_bytes());
                CHECK(queue.pinned_bytes() >= 4 * 4096);  // of uploaded batches
                CHECK(r.skipped > 0);
                CHECK(r.skipped < 7);
                std::vector<std::uint64_t> own{std::bit_cast<std::uint64_t>(r.loss)};
                t.store().each_parameter([&](const parameter_record&, auto, auto weight) {
                  for (const auto x : weight) own.push_back(std::bit_cast<std::uint64_t>(static_cast<double>(x)));
                });
                if (ctx.is_first()) bits[late] = own;
              },
              {.check = false});
  CHECK(bits[0].size() > 1000);
  CHECK(bits[0] == bits[1]);
}
