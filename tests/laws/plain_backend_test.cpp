// A backend of one's own, with the few kernels that a program needs, is held to the laws of those it has; operators
// that need no others have right gradients on it, on every mesh.
#include "backend/plain_backend.hpp"

#include <doctest/doctest.h>

#include <weft/testing/backend/memory.hpp>
#include <weft/testing/backend/products.hpp>
#include <weft/testing/laws.hpp>
#include <weft/weft.hpp>

#include "sample.hpp"

namespace {
using namespace weft;
using weft_test::plain_backend;
using S = strategy<mesh<dp, tp>, plain_backend>;

TEST_CASE("a backend of one's own: the kernels that it has are right, and the concepts say which") {
  CHECK(backend_with_queue<plain_backend>);
  CHECK(memory_kernels<plain_backend>);
  CHECK(matmul_kernel<plain_backend, double>);
  CHECK(!softmax_kernels<plain_backend, double>);
  CHECK(!backend_for<plain_backend, double>);
  CHECK(testing::check_memory_kernels<plain_backend, float, double>().lacking.empty());
  CHECK(testing::check_matmul_kernels<plain_backend, float, double>().lacking.empty());
}
TEST_CASE("a backend of one's own: a sum over ranks of products, between functions") {
  using x2 = basic_tensor<double, dims<batch, hidden>, place<shard<batch, dp>, shard<hidden, tp>>, plain_backend>;
  using w2 = basic_tensor<double, dims<hidden, ffn>, place<replicate<dp>, shard<hidden, tp>>, plain_backend>;
  testing::check_gradients<S, x2, w2>(
      "plain layer", [](const auto& x, const auto& w) { return tanh(all_reduce<tp>(contract<hidden>(x, w))); },
      {.every = 4 * weft_test::sample_stride()});
}
TEST_CASE("a backend of one's own: a product with a bias needs no gelu") {
  using x2 = basic_tensor<double, dims<batch, hidden>, place<shard<batch, dp>>, plain_backend>;
  using w2 = basic_tensor<double, dims<ffn, hidden>, place<shard<ffn, tp>>, plain_backend>;
  using row = basic_tensor<double, dims<ffn>, place<shard<ffn, tp>>, plain_backend>;
  testing::check_gradients<S, x2, w2, row>(
      "plain linear layer", [](const auto& x, const auto& w, const auto& b) { return contract<hidden>(x, w, b); },
      {.every = 4 * weft_test::sample_stride()});
}

}  // namespace
