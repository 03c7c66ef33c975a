// Every kernel of the CUDA backend for every element type, for the compiler's report (compiler_report_test.sh).
#include <weft/backend/cuda/backend.hpp>
#include <weft/backend/cuda/kernels/fold.hpp>
#include <weft/backend/cuda/launch.cuh>

using namespace weft;
using namespace weft::gpu;

#define REPORT(...) template __global__ void weft::gpu::run_on_device<__VA_ARGS__>(const __grid_constant__ __VA_ARGS__)

#define REPORT_TYPE(T)                              \
  REPORT(swiglu_kernel<T>);                         \
  REPORT(swiglu_backward_kernel<T>);                \
  REPORT(rms_norm_kernel<T>);                       \
  REPORT(rms_norm_backward_kernel<T>);              \
  REPORT(layer_norm_kernel<T>);                     \
  REPORT(layer_norm_backward_kernel<T>);            \
  REPORT(norm_tile_kernel<T, false>);               \
  REPORT(norm_tile_kernel<T, true>);                \
  REPORT(norm_tile_kernel<T, false, true>);         \
  REPORT(norm_tile_kernel<T, true, true>);          \
  REPORT(norm_tile_backward_kernel<T, false>);      \
  REPORT(norm_tile_backward_kernel<T, true>);       \
  REPORT(sum_parts_kernel<accumulate_t<T>, T>);     \
  REPORT(softmax_kernel<T>);                        \
  REPORT(softmax_backward_kernel<T>);               \
  REPORT(softmax_tile_kernel<T>);                   \
  REPORT(softmax_tile_backward_kernel<T>);          \
  REPORT(fold_kernel<T>);                           \
  REPORT(row_max_kernel<T>);                        \
  REPORT(row_sums_kernel<T>);                       \
  REPORT(cross_entropy_backward_kernel<T>);         \
  REPORT(embedding_kernel<T>);                      \
  REPORT(embedding_backward_kernel<T, T>);          \
  REPORT(rope_kernel<T>);                           \
  REPORT(dropout_kernel<T, false>);                 \
  REPORT(dropout_kernel<T, true>);                  \
  REPORT(adamw_kernel<accumulate_t<T>, T, T>);      \
  REPORT(unary_kernel<unary::gelu, T>);             \
  REPORT(unary_backward_kernel<unary::gelu, T>);    \
  REPORT(binary_kernel<T>);                         \
  REPORT(broadcast_kernel<T>);                      \
  REPORT(scale_kernel<T>);                          \
  REPORT(reduce_rows_kernel<reduce::sum, T, T>);    \
  REPORT(reduce_columns_kernel<reduce::sum, T, T>); \
  REPORT(repeat_kernel<T>);                         \
  REPORT(squares_kernel<T>);                        \
  REPORT(statistics_kernel<T>);                     \
  REPORT(fill_kernel<T>);                           \
  REPORT(strided_copy_kernel<T>);                   \
  REPORT(convert_kernel<T, T>);                     \
  REPORT(strided_matmul_kernel<T, T>);              \
  REPORT(token_keys_kernel<T>)

#define REPORT_FLOAT8(T)               \
  REPORT(largest_magnitude_kernel<T>); \
  REPORT(float8_codes_kernel<T>)
REPORT_FLOAT8(float);
REPORT_FLOAT8(bf16);
REPORT_FLOAT8(fp16);

REPORT(adamw_rounded_kernel<float, float>);
REPORT(adamw_rounded_kernel<float, bf16>);

REPORT(penalise_kernel);
REPORT(last_kept_kernel);
REPORT(choose_kernel);

REPORT_TYPE(float);
REPORT_TYPE(double);
REPORT_TYPE(bf16);
REPORT_TYPE(fp16);

#define REPORT_CONVERSION(From, To)                                            \
  template __global__ void weft::gpu::run_on_device<convert_kernel<From, To>>( \
      const __grid_constant__ convert_kernel<From, To>)
REPORT_CONVERSION(float, bf16);
REPORT_CONVERSION(bf16, float);
REPORT_CONVERSION(float, fp16);
REPORT_CONVERSION(fp16, float);
REPORT_CONVERSION(float, double);
REPORT_CONVERSION(double, float);
