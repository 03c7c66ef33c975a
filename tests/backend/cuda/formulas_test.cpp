// Formulas on the kernels of CUDA, run on the host behind queues that run as late as they may.
#include "../../op/formulas_of_all_kinds.hpp"
#include "lazy_queue.hpp"

using namespace weft_test;

TEST_CASE("the kernels of CUDA: formulas of elements and of rows, and what is made of them") {
  check_formulas_near_cpu(numbers_of_formulas<lazy_cuda_backend>());
}

TEST_CASE("the kernels of CUDA: ids that aren't any take 0, and give their gradient to nobody") {
  using S = strategy<mesh<>, single_rank, lazy_cuda_backend>;
  using x1 = basic_tensor<float, dims<seq>, place<>, lazy_cuda_backend>;
  using ids = basic_tensor<std::int32_t, dims<batch>, place<>, lazy_cuda_backend>;
  launch<S>({}, [](context& ctx) {
    auto x = from_global<x1>(ctx, {3}, std::vector<float>{4, 5, 6});
    x.requires_grad();
    const auto y = take<seq>(x, from_global<ids>(ctx, {4}, std::vector<std::int32_t>{2, 3, -1, 2}));
    CHECK(on_host(y) == std::vector<float>{6, 0, 0, 6});
    backward(sum(y));
    CHECK(on_host(x.grad()) == std::vector<float>{0, 0, 2});
  });
}
