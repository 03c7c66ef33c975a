// The MLP block on cuda_backend against cpu_backend. Needs a GPU.
#include <weft/weft.cuh>

#include "mlp_trial.hpp"

using namespace testing;
using weft::strategy, weft::mesh, weft::dp, weft::tp, weft::bf16_mixed, weft::fp32;

TEST_CASE_TEMPLATE("the MLP block on a GPU equals the CPU's", Precision, fp32, bf16_mixed) {
  using on_cpu = strategy<mesh<dp, tp>, Precision>;
  using on_gpu = strategy<mesh<dp, tp>, Precision, weft::cuda_backend>;
  for (const mlp_sizes size : {mlp_sizes{2, 5, 16, 24}, mlp_sizes{1, 3, 13, 7}, mlp_sizes{2, 64, 256, 384}})
    check_same_outcome(run_mlp<on_gpu>(size), run_mlp<on_cpu>(size), mlp_tolerance<on_cpu>());
}

namespace {
// As numbers of files, which each rank reads by itself.
struct numbers_read {
  std::int64_t size() const { return 1; }
  template <class Through, class Out>
  void read(const weft::placed_slice&, std::int64_t, std::int64_t, Out*) const {}
};
// For nvcc's front end alone: what loads weights takes such numbers.
[[maybe_unused]] void load(weft::parameter_store<weft::cuda_backend, bf16_mixed>& store) {
  store.load_parameters([](const weft::parameter_record&) { return numbers_read(); });
}
}  // namespace
