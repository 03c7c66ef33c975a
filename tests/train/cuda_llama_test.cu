// A Llama trained on a GPU beside the CPU's. Needs a GPU.
#include "cuda_training.cuh"

namespace {
using namespace weft;
using namespace weft_test;

TEST_CASE("cuda: a Llama in fp32") { check_on_gpu<llama>(small_llama, of_fp32); }

TEST_CASE("cuda: a Llama in bf16, selective recomputation") {
  check_on_gpu<llama, bf16_mixed, checkpoint_selective>(small_llama, of_16_bits);
}

TEST_CASE("cuda: a Llama in fp16 whose first steps overflow, full recomputation") {
  check_on_gpu<llama, fp16_from_above, checkpoint_full>(small_llama, of_16_bits, 3);
}

}  // namespace
