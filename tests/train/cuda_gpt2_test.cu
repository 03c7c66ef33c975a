// A GPT-2 with dropout trained on a GPU beside the CPU's (beside_cpu.hpp), and by graphs beside itself (as_graphs.hpp).
// Needs a GPU.
#include <weft/weft.cuh>

#include "as_graphs.hpp"
#include "beside_cpu.hpp"

namespace {
using namespace weft;
using namespace weft_test;

// Heads and rows of sizes that kernels have fast paths for.
const gpt2_config even_gpt2{.layers = 2, .hidden = 256, .heads = 2, .vocab = 256, .max_seq = 128, .dropout = 0.1};

TEST_CASE("cuda: a GPT-2 in fp32, dropout, full recomputation") {
  check_beside_cpu<cuda_backend, gpt2, checkpoint_full>(small_gpt2, of_fp32);
  check_beside_cpu<cuda_backend, gpt2, checkpoint_full>(even_gpt2, of_fp32);
}

TEST_CASE("cuda: a GPT-2 in bf16, dropout") {
  check_beside_cpu<cuda_backend, gpt2, bf16_mixed>(small_gpt2, of_16_bits);
  check_beside_cpu<cuda_backend, gpt2, bf16_mixed>(even_gpt2, of_16_bits);
}

TEST_CASE("cuda: a GPT-2 whose steps are graphs, dropout") {
  check_as_graphs<gpt2<strategy<mesh<dp>, bf16_mixed, cuda_backend>>>(small_gpt2);
}

}  // namespace
