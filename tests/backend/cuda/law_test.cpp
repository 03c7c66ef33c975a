// The installed laws of backends, on the CUDA kernels run on the host: the code that a GPU gets, grids and scratch
// included, in one element type or two of each family.
#include <sample.hpp>

#include <doctest/doctest.h>

#include <weft/testing/backend.hpp>

#include "choice_trial.hpp"
#include "host_queue.hpp"

namespace {
using B = weft_test::host_cuda_backend;
using weft::bf16, weft::fp16;
using namespace weft::testing;

TEST_CASE("on the host: laws of memory") { check_memory_kernels<B, bf16, float>().require_complete(); }
TEST_CASE("on the host: laws of matrix products") { check_matmul_kernels<B, bf16>(1, 40).require_complete(); }
TEST_CASE("on the host: laws of functions") { check_elementwise_kernels<B, bf16, double>().require_complete(); }
TEST_CASE("on the host: laws of embedding, dropout and AdamW") {
  check_training_kernels<B, bf16, double>().require_complete();
}
TEST_CASE("on the host: the kernels choose the token that the host does") {
  B::queue queue(7);
  weft_test::check_all_choices<B>(queue);
}

}  // namespace
