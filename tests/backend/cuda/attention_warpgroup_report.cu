// Attention's kernels for sm_90a, for the compiler's report (compiler_report_test.sh).
#include <weft/backend/cuda/device_block.cuh>
#include <weft/backend/cuda/kernels/attention_warpgroup.cuh>

using namespace weft;
using namespace weft::gpu;

#define REPORT(...) template __global__ void weft::gpu::run_on_device<__VA_ARGS__>(const __grid_constant__ __VA_ARGS__)

REPORT(attention_warpgroup_kernel<bf16, 64>);
REPORT(attention_warpgroup_kernel<bf16, 128>);
REPORT(attention_warpgroup_kernel<fp16, 64>);
REPORT(attention_warpgroup_kernel<fp16, 128>);
