// Attention's kernels for sm_90a, for the compiler's report (compiler_report_test.sh).
#include <weft/backend/cuda/kernels/attention_warpgroup.cuh>
#include <weft/backend/cuda/kernels/attention_warpgroup_backward.cuh>
#include <weft/backend/cuda/kernels/attention_warpgroup_backward_queries.cuh>
#include <weft/backend/cuda/launch.cuh>

using namespace weft;
using namespace weft::gpu;

#define REPORT(...) template __global__ void weft::gpu::run_on_device<__VA_ARGS__>(const __grid_constant__ __VA_ARGS__)

#define REPORT_WARPGROUP(T, D, Documents)                            \
  REPORT(attention_warpgroup_kernel<T, D, Documents>);               \
  REPORT(attention_warpgroup_keys_backward_kernel<T, D, Documents>); \
  REPORT(attention_warpgroup_queries_backward_kernel<T, D, Documents>)

REPORT_WARPGROUP(bf16, 64, false);
REPORT_WARPGROUP(bf16, 128, false);
REPORT_WARPGROUP(fp16, 64, false);
REPORT_WARPGROUP(fp16, 128, false);
REPORT_WARPGROUP(bf16, 64, true);
REPORT_WARPGROUP(bf16, 128, true);
REPORT_WARPGROUP(fp16, 64, true);
REPORT_WARPGROUP(fp16, 128, true);
