// Matrix products by cuBLASLt, planned once for each shape. Invariant: sums are in float (double for double), without
// TF32, and of numbers of 8 bits without what it calls fast accumulation.
#pragma once

#include <array>
#include <bit>
#include <map>
#include <memory>

#include <weft/backend/cuda/matmul_layout.hpp>
#include <weft/backend/cuda/memory.cuh>
#include <weft/core/dtype.hpp>
#include <weft/core/float8.hpp>

namespace weft::gpu {
namespace detail {

struct destroy_blas {
  void operator()(cublasLtHandle_t h) const { cublasLtDestroy(h); }
  void operator()(cublasLtMatmulDesc_t d) const { cublasLtMatmulDescDestroy(d); }
  void operator()(cublasLtMatrixLayout_t l) const { cublasLtMatrixLayoutDestroy(l); }
  void operator()(cublasLtMatmulPreference_t p) const { cublasLtMatmulPreferenceDestroy(p); }
};
template <class Handle>
using blas_object = std::unique_ptr<std::remove_pointer_t<Handle>, destroy_blas>;

inline cudaDataType_t blas_type(dtype type) {
  switch (type) {
    case dtype::f64:
      return CUDA_R_64F;
    case dtype::f32:
      return CUDA_R_32F;
    case dtype::bf16:
      return CUDA_R_16BF;
    case dtype::f16:
      return CUDA_R_16F;
    default:
      fail("cuBLASLt multiplies floating numbers here, not ", name_of(type));
  }
}

inline cudaDataType_t blas_type(float8_form form) {
  return form == float8_form::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}
/// Of first, second and out.
struct product_types {
  cudaDataType_t first, second, out;
  bool wide() const { return first == CUDA_R_64F; }
};
/// What numbers of 8 bits are multiplied by, in the device's memory; null for others.
struct product_scales {
  const float *first = nullptr, *second = nullptr;
};

/// What a plan depends on. The last five are the alignments of addresses in bytes, at most 256: of the operands, of the
/// bias and of what is before gelu, 0 where there is none.
struct product_key {
  std::array<std::int64_t, 22> at;
  friend auto operator<=>(const product_key&, const product_key&) = default;
};

struct product_plan {
  bool found = false;  // whether cuBLASLt knows a way
  blas_object<cublasLtMatmulDesc_t> product;
  blas_object<cublasLtMatrixLayout_t> first, second, out;
  cublasLtMatmulAlgo_t algorithm;
};

inline blas_object<cublasLtMatrixLayout_t> layout_for(cudaDataType_t type, const column_major& m, std::int64_t batch) {
  cublasLtMatrixLayout_t raw = nullptr;
  check(cublasLtMatrixLayoutCreate(&raw, type, static_cast<std::uint64_t>(m.rows),
                                   static_cast<std::uint64_t>(m.columns), m.leading),
        "cublasLtMatrixLayoutCreate");
  blas_object<cublasLtMatrixLayout_t> layout(raw);
  const auto count = static_cast<std::int32_t>(batch);
  check(cublasLtMatrixLayoutSetAttribute(raw, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
        "cublasLtMatrixLayoutSetAttribute");
  check(cublasLtMatrixLayoutSetAttribute(raw, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.batch_stride,
                                         sizeof(m.batch_stride)),
        "cublasLtMatrixLayoutSetAttribute");
  return layout;
}

inline std::uint32_t alignment_of(const void* p) {
  const auto bits = reinterpret_cast<std::uintptr_t>(p) | 256u;
  return p ? static_cast<std::uint32_t>(bits & (~bits + 1)) : 0;
}

inline void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t what, const auto& value) {
  check(cublasLtMatmulDescSetAttribute(product, what, &value, sizeof(value)), "cublasLtMatmulDescSetAttribute");
}
/// Where the epilogue's numbers lie: not a plan's, which other addresses share.
inline void set_addresses(cublasLtMatmulDesc_t product, const matmul_epilogue& after) {
  if (after.bias) set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, after.bias);
  if (after.before_gelu) set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, after.before_gelu);
}
/// The same of scales.
inline void set_scales(cublasLtMatmulDesc_t product, const product_scales& of) {
  if (of.first) set(product, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, of.first);
  if (of.second) set(product, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, of.second);
}
inline void set_epilogue(cublasLtMatmulDesc_t product, const matmul_epilogue& after, const column_major& out) {
  const bool gelu = after.before_gelu;
  const cublasLtEpilogue_t what = gelu ? after.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX
                                  : after.bias ? CUBLASLT_EPILOGUE_BIAS
                                               : CUBLASLT_EPILOGUE_DEFAULT;
  if (what == CUBLASLT_EPILOGUE_DEFAULT) return;
  set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, what);
  if (gelu) set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, out.leading);
  set_addresses(product, after);  // which also say how they are aligned
}

}  // namespace detail

/// A cuBLASLt handle with its workspace and its plans; belongs to one stream.
class blas {
 public:
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

  blas() {
    cublasLtHandle_t raw = nullptr;
    check(cublasLtCreate(&raw), "cublasLtCreate");
    handle_.reset(raw);
    workspace_.reset(allocate(workspace_bytes));
    require(workspace_ != nullptr, "out of device memory: cuBLASLt's workspace needs ", workspace_bytes >> 20, " MiB");
  }

  /// out (+)= first * second, and then `after`, in float before it is rounded. False, and nothing done, when cuBLASLt
  /// knows no way for these sizes and addresses.
  bool multiply(cudaStream_t on, const matmul_shape& size, dtype in, dtype out_type, const blas_product& p,
                const void* first, const void* second, void* out, bool accumulate, const matmul_epilogue& after) {
    if (size.batch > 1 && (after.bias || after.before_gelu)) return false;
    // cuBLASLt takes no other distances of columns
    if (after.before_gelu && p.out.leading % 8 != 0) return false;
    const cudaDataType_t of = detail::blas_type(in);
    return run(on, size, {of, of, detail::blas_type(out_type)}, p, {first, second, out}, out, accumulate, after, {});
  }
  /// out (+)= first * second of numbers of 8 bits, each times its scale.
  bool multiply_float8(cudaStream_t on, const matmul_shape& size, float8_form of_first, float8_form of_second,
                       dtype out_type, const blas_product& p, const void* first, const void* second, void* out,
                       bool accumulate, const detail::product_scales& scales) {
    const detail::product_types of{detail::blas_type(of_first), detail::blas_type(of_second),
                                   detail::blas_type(out_type)};
    return run(on, size, of, p, {first, second, out}, out, accumulate, {}, scales);
  }

 private:
  using addresses = std::array<const void*, 3>;
  bool run(cudaStream_t on, const matmul_shape& size, const detail::product_types& of, const blas_product& p,
           const addresses& operands, void* out, bool accumulate, const matmul_epilogue& after,
           const detail::product_scales& scales) {
    const detail::product_plan& plan = plan_for(size, of, p, operands, accumulate, after, scales);
    if (!plan.found) return false;
    detail::set_addresses(plan.product.get(), after);
    detail::set_scales(plan.product.get(), scales);
    const float one = 1, beta = accumulate ? 1 : 0;
    const double one64 = 1, beta64 = accumulate ? 1 : 0;
    check(cublasLtMatmul(handle_.get(), plan.product.get(), of.wide() ? static_cast<const void*>(&one64) : &one,
                         operands[0], plan.first.get(), operands[1], plan.second.get(),
                         of.wide() ? static_cast<const void*>(&beta64) : &beta, out, plan.out.get(), out,
                         plan.out.get(), &plan.algorithm, workspace_.get(), workspace_bytes, on),
          "cublasLtMatmul");
    return true;
  }
  const detail::product_plan& plan_for(const matmul_shape& size, const detail::product_types& of, const blas_product& p,
                                       const addresses& operands, bool accumulate, const matmul_epilogue& after,
                                       const detail::product_scales& scales) {
    detail::product_key key{};
    std::size_t n = 0;
    const auto add = [&](std::int64_t x) { key.at[n++] = x; };
    add(size.m), add(size.n), add(size.k), add(size.batch);
    add(of.first), add(of.second), add(of.out), add(accumulate);
    for (const column_major* m : {&p.first, &p.second, &p.out})
      add(m->leading), add(m->batch_stride), add(m->transposed);
    for (const void* operand : operands) add(detail::alignment_of(operand));
    add(detail::alignment_of(after.bias)), add(detail::alignment_of(after.before_gelu));
    const auto [at, fresh] = plans_.try_emplace(key);
    if (fresh) {
      try {
        make(at->second, size, of, p, operands, after, scales);
      } catch (...) {
        plans_.erase(at);
        throw;
      }
    }
    return at->second;
  }

  void make(detail::product_plan& plan, const matmul_shape& size, const detail::product_types& of,
            const blas_product& p, const addresses& operands, const matmul_epilogue& after,
            const detail::product_scales& scales) {
    const bool wide = of.wide();
    cublasLtMatmulDesc_t product = nullptr;
    check(cublasLtMatmulDescCreate(&product, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                   wide ? CUDA_R_64F : CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    plan.product.reset(product);
    const cublasOperation_t op_first = p.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                            op_second = p.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    detail::set(product, CUBLASLT_MATMUL_DESC_TRANSA, op_first),
        detail::set(product, CUBLASLT_MATMUL_DESC_TRANSB, op_second);
    detail::set_epilogue(product, after, p.out);
    detail::set_scales(product, scales);
    plan.first = detail::layout_for(of.first, p.first, size.batch);
    plan.second = detail::layout_for(of.second, p.second, size.batch);
    plan.out = detail::layout_for(of.out, p.out, size.batch);

    cublasLtMatmulPreference_t raw = nullptr;
    check(cublasLtMatmulPreferenceCreate(&raw), "cublasLtMatmulPreferenceCreate");
    const detail::blas_object<cublasLtMatmulPreference_t> preference(raw);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
      check(cublasLtMatmulPreferenceSetAttribute(raw, what, &value, sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, detail::alignment_of(operands[0]));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, detail::alignment_of(operands[1]));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, detail::alignment_of(operands[2]));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, detail::alignment_of(operands[2]));

    cublasLtMatmulHeuristicResult_t best{};
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_.get(), product, plan.first.get(), plan.second.get(), plan.out.get(),
                                       plan.out.get(), raw, 1, &best, &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || count == 0) return;
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    if (best.state != CUBLAS_STATUS_SUCCESS) return;
    plan.algorithm = best.algo;
    plan.found = true;
  }

  detail::blas_object<cublasLtHandle_t> handle_;
  device_pointer workspace_;
  std::map<detail::product_key, detail::product_plan> plans_;
};

}  // namespace weft::gpu
