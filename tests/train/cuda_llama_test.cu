// A Llama trained on a GPU beside the CPU's (beside_cpu.hpp), and by graphs beside itself (as_graphs.hpp). Needs a GPU.
#include <weft/weft.cuh>

#include "as_graphs.hpp"
#include "beside_cpu.hpp"

namespace {
using namespace weft;
using namespace weft_test;

// Heads and rows of sizes that kernels have fast paths for.
const llama_config even_llama{
    .layers = 2, .hidden = 256, .heads = 4, .kv_heads = 2, .ffn = 512, .vocab = 256, .max_seq = 128};

TEST_CASE("cuda: a Llama in fp32") {
  check_beside_cpu<cuda_backend, llama>(small_llama, of_fp32);
  check_beside_cpu<cuda_backend, llama>(even_llama, of_fp32);
}

TEST_CASE("cuda: a Llama in bf16, selective recomputation") {
  check_beside_cpu<cuda_backend, llama, bf16_mixed, checkpoint_selective>(small_llama, of_16_bits);
  check_beside_cpu<cuda_backend, llama, bf16_mixed, checkpoint_selective>(even_llama, of_16_bits);
}

TEST_CASE("cuda: a Llama in fp16 whose first steps overflow, full recomputation") {
  check_beside_cpu<cuda_backend, llama, fp16_from_above, checkpoint_full>(small_llama, of_16_bits, 3);
}

TEST_CASE("cuda: a Llama whose steps are graphs") {
  check_as_graphs<llama<strategy<mesh<dp>, bf16_mixed, checkpoint_selective, cuda_backend>>>(
      llama_config{.layers = 2, .hidden = 128, .heads = 2, .kv_heads = 1, .ffn = 128, .vocab = 256, .max_seq = 32});
}

}  // namespace
