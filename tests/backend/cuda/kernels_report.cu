// Every kernel of the CUDA backend for every element type, for the compiler's report (compiler_report_test.sh).
#include <weft/backend/cuda/backend.hpp>
#include <weft/backend/cuda/device_block.cuh>

using namespace weft;
using namespace weft::cuda;

#define REPORT(...) template __global__ void weft::cuda::run_on_device<__VA_ARGS__>(const __grid_constant__ __VA_ARGS__)

#define REPORT_TYPE(T)                          \
  REPORT(swiglu_kernel<T>);                     \
  REPORT(swiglu_backward_kernel<T>);            \
  REPORT(rms_norm_kernel<T>);                   \
  REPORT(rms_norm_backward_kernel<T>);          \
  REPORT(sum_parts_kernel<accumulate_t<T>, T>); \
  REPORT(fill_kernel<T>);                       \
  REPORT(strided_copy_kernel<T>);               \
  REPORT(convert_kernel<T, T>);                 \
  REPORT(strided_matmul_kernel<T, T>)

REPORT_TYPE(float);
REPORT_TYPE(double);
REPORT_TYPE(bf16);
REPORT_TYPE(fp16);

#define REPORT_CONVERSION(From, To)                                             \
  template __global__ void weft::cuda::run_on_device<convert_kernel<From, To>>( \
      const __grid_constant__ convert_kernel<From, To>)
REPORT_CONVERSION(float, bf16);
REPORT_CONVERSION(bf16, float);
REPORT_CONVERSION(float, fp16);
REPORT_CONVERSION(fp16, float);
REPORT_CONVERSION(float, double);
REPORT_CONVERSION(double, float);
