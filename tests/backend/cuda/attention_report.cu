// Attention's kernels for every element type, for the compiler's report (compiler_report_test.sh).
#include <weft/backend/cuda/launch.cuh>
#include <weft/backend/cuda/words/attention.hpp>

using namespace weft;
using namespace weft::gpu;

#define REPORT(...) template __global__ void weft::gpu::run_on_device<__VA_ARGS__>(const __grid_constant__ __VA_ARGS__)

#define REPORT_TYPE(T)                       \
  REPORT(attention_kernel<T>);               \
  REPORT(attention_delta_kernel<T>);         \
  REPORT(attention_keys_backward_kernel<T>); \
  REPORT(attention_queries_backward_kernel<T>)

REPORT_TYPE(float);
REPORT_TYPE(double);
REPORT_TYPE(bf16);
REPORT_TYPE(fp16);

#define REPORT_TENSOR(T, D)                            \
  REPORT(attention_tensor_kernel<T, D>);               \
  REPORT(attention_tensor_keys_backward_kernel<T, D>); \
  REPORT(attention_tensor_queries_backward_kernel<T, D>)

#define REPORT_DOCUMENTS(T, D)                               \
  REPORT(attention_tensor_kernel<T, D, true>);               \
  REPORT(attention_tensor_keys_backward_kernel<T, D, true>); \
  REPORT(attention_tensor_queries_backward_kernel<T, D, true>)

REPORT_TENSOR(bf16, 64);
REPORT_TENSOR(bf16, 96);
REPORT_TENSOR(bf16, 128);
REPORT_TENSOR(bf16, 256);
REPORT_TENSOR(fp16, 64);
REPORT_TENSOR(fp16, 128);
REPORT_DOCUMENTS(bf16, 64);
REPORT_DOCUMENTS(bf16, 96);
REPORT_DOCUMENTS(bf16, 128);
REPORT_DOCUMENTS(bf16, 256);
