// The MLP block on the CUDA backend's kernels, run on the host, against the CPU backend: what decides grids, alignments
// and descriptions of products is the code that a GPU gets.
#include "host_queue.hpp"
#include "mlp_trial.hpp"

using namespace weft_test;
using weft::strategy, weft::mesh, weft::dp, weft::tp, weft::bf16_mixed, weft::fp32;

static_assert(std::same_as<strategy<mesh<dp>>::backend, weft::cpu_backend>);
static_assert(std::same_as<strategy<mesh<dp>, host_cuda_backend, bf16_mixed>::backend, host_cuda_backend>);
static_assert(std::same_as<strategy<mesh<dp>, host_cuda_backend, bf16_mixed>::communicator, weft::threads>);

TEST_CASE_TEMPLATE("the MLP block on the kernels of CUDA equals the CPU's", Precision, fp32, bf16_mixed) {
  using on_cpu = strategy<mesh<dp, tp>, Precision>;
  using on_host_cuda = strategy<mesh<dp, tp>, Precision, host_cuda_backend>;
  for (const mlp_sizes size : {mlp_sizes{2, 5, 16, 24}, mlp_sizes{1, 3, 13, 7}})  // aligned for packs, and not
    check_same_outcome(run_mlp<on_host_cuda>(size), run_mlp<on_cpu>(size), mlp_tolerance<on_cpu>());
}

TEST_CASE("tensors of a device backend are written and read by way of the host") {
  weft::launch<strategy<mesh<>, host_cuda_backend>>({}, [](weft::context& ctx) {
    using x_type = weft::basic_tensor<float, weft::dims<weft::batch, weft::hidden>, weft::layout<>, host_cuda_backend>;
    const float numbers[6] = {1, 2, 3, 4, 5, 6};
    const auto x = weft::from_global<x_type>(ctx, {2, 3}, numbers);
    CHECK(weft::on_host(x) == std::vector<float>(numbers, numbers + 6));
    CHECK(weft::on_host(weft::full<x_type>(ctx, {2, 3}, 0.5)) == std::vector<float>(6, 0.5f));
  });
}
