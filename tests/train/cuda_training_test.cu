// Training on a GPU beside the same on the CPU (beside_cpu.hpp). Needs a GPU.
#include <weft/weft.cuh>

#include "beside_cpu.hpp"

using namespace weft;
using namespace weft_test;

TEST_CASE("cuda: a Llama in fp32") { check_beside_cpu<cuda_backend, llama>(small_llama, of_fp32); }

TEST_CASE("cuda: a Llama in bf16, selective recomputation") {
  check_beside_cpu<cuda_backend, llama, bf16_mixed, checkpoint_selective>(small_llama, of_16_bits);
}

TEST_CASE("cuda: a Llama in fp16 whose first steps overflow, full recomputation") {
  check_beside_cpu<cuda_backend, llama, fp16_from_above, checkpoint_full>(small_llama, of_16_bits, 3);
}

TEST_CASE("cuda: a GPT-2 in fp32, dropout, full recomputation") {
  check_beside_cpu<cuda_backend, gpt2, checkpoint_full>(small_gpt2, of_fp32);
}

TEST_CASE("cuda: a GPT-2 in bf16, dropout") {
  check_beside_cpu<cuda_backend, gpt2, bf16_mixed>(small_gpt2, of_16_bits);
}
