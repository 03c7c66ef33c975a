// The installed laws of backends, on the CUDA kernels run on the host: a backend that has a part of the kernels. One
// element type, few products, and no RMSNorm, since a block's threads run in turns here.
#include <algorithm>

#include <doctest/doctest.h>

#include <weft/testing/backend/elementwise.hpp>
#include <weft/testing/backend/memory.hpp>
#include <weft/testing/backend/products.hpp>

#include "host_queue.hpp"

namespace {
using B = testing::host_cuda_backend;
using weft::bf16;

TEST_CASE("the kernels that it has obey their laws, and the others are listed") {
  const auto names = [](const std::vector<std::string>& list, const char* kernel) {
    return std::find(list.begin(), list.end(), kernel) != list.end();
  };
  CHECK(names(weft::testing::check_memory_kernels<B, bf16>().tried, "copy of bf16"));
  CHECK(names(weft::testing::check_matmul_kernels<B, bf16>(1, 40).tried, "matmul of bf16"));
  const auto elements = weft::testing::check_elementwise_kernels<B, bf16>();
  CHECK(names(elements.tried, "swiglu of bf16"));
  CHECK(names(elements.lacking, "exp of bf16"));
}

}  // namespace
