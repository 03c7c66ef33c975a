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
