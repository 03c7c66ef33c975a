// The laws of law_test.cpp for what adds up: kernels of many barriers, of which every one is a hand-over between
// fibers.
#include <sample.hpp>

#include <doctest/doctest.h>

#include <weft/testing/backend.hpp>

#include "host_queue.hpp"

namespace {
using B = weft_test::host_cuda_backend;
using weft::bf16, weft::fp16;
using namespace weft::testing;

TEST_CASE("on the host: laws of reductions") {
  if (weft_test::sample_stride() == 1) check_reduction_kernels<B, bf16>().require_complete();
}
TEST_CASE("on the host: laws of rows") {
  if (weft_test::sample_stride() == 1) check_row_kernels<B, bf16>().require_complete();
}
TEST_CASE("on the host: laws of attention and rotary positions") {
  if (weft_test::sample_stride() == 1) check_attention_kernels<B, bf16, float>().require_complete();
}

}  // namespace
