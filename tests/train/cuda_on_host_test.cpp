// Training on the CUDA kernels, run on the host, beside the same on the CPU (beside_cpu.hpp); one of them under a
// sanitizer, where a kernel's threads, which are fibers, are slowest.
#include <backend/cuda/host_queue.hpp>
#include <backend/cuda/lazy_queue.hpp>

#include "beside_cpu.hpp"
#include "generate_beside_cpu.hpp"
#include "sample.hpp"

using namespace weft;
using namespace weft_test;
using weft_test::host_cuda_backend;

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

TEST_CASE("the kernels of CUDA: text token by token, on two ranks of one device" * doctest::skip(sanitized)) {
  auto bold = tiny_llama;
  bold.kv_heads = 2, bold.init_stddev = 0.3;
  check_text_beside_cpu<lazy_cuda_backend>({.tp = 2}, bold, 4);
}
