// Training on several ranks of one GPU beside the same on the CPU (beside_cpu.hpp): the collectives behind the ranks'
// streams. Needs a GPU.
#include <weft/weft.cuh>

#include "beside_cpu.hpp"

namespace {
using namespace weft;
using namespace weft_test;

const llama_config even_llama{
    .layers = 4, .hidden = 128, .heads = 4, .kv_heads = 2, .ffn = 256, .vocab = 256, .max_seq = 64};

TEST_CASE("cuda: a Llama on eight ranks, zero3 x tp x pp, full recomputation, bf16") {
  const auto same = [](const llama_config& config) {
    check_ranks_beside_cpu<cuda_backend, llama, mesh<pp, dp, tp>, zero3, bf16_mixed, checkpoint_full>(
        {.dp = 2, .tp = 2, .pp = 2}, config, of_16_bits);
  };
  same(small_llama), same(even_llama);
}

TEST_CASE("cuda: a Llama on eight ranks, hybrid x sequence_parallel, fp32") {
  check_ranks_beside_cpu<cuda_backend, llama, mesh<dp, fsdp, tp>, hybrid, sequence_parallel>(
      degrees{.dp = 2, .tp = 2}.with<fsdp>(2), even_llama, of_fp32);
}

TEST_CASE("cuda: a GPT-2 on four stages, one_f_one_b, dropout") {
  check_ranks_beside_cpu<cuda_backend, gpt2, mesh<pp>, one_f_one_b>({.pp = 4}, small_gpt2, of_fp32);
}

}  // namespace
