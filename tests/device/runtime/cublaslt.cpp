// cuBLASLt's products by plain loops, in a strict reading of its documentation: what it needn't take is refused.
// Invariant: sums are in double and rounded once; operands lie in device memory, and what is read was written.
#include <cublasLt.h>

#include <cmath>
#include <cstring>

#include "../numbers.hpp"
#include "state.hpp"

namespace {

using namespace device;

struct description {
  cublasComputeType_t computes;
  cudaDataType_t scale;
  cublasOperation_t first = CUBLAS_OP_N, second = CUBLAS_OP_N;
  cublasLtEpilogue_t after = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* before_gelu = nullptr;
  std::int64_t leading_before_gelu = 0;
  const float *scale_first = nullptr, *scale_second = nullptr;

  bool adds_bias() const { return (after & CUBLASLT_EPILOGUE_BIAS) != 0; }
  bool has_gelu() const { return (after & CUBLASLT_EPILOGUE_GELU) != 0; }
};
struct layout {
  cudaDataType_t of;
  std::uint64_t rows, columns;
  std::int64_t leading;
  std::int32_t batch = 1;
  std::int64_t stride = 0;  // from one matrix to the next, in elements
  friend bool operator==(const layout&, const layout&) = default;
};
struct preference {
  std::uint64_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C, D
};
// What an algorithm is good for.
struct algorithm {
  std::uint64_t problem, workspace;
  std::uint32_t alignment[6];  // of A, B, C, D, the bias and what is before gelu
};
static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t));
constexpr std::uint64_t used_workspace = 1 << 20;

description& of(cublasLtMatmulDesc_t p) { return *reinterpret_cast<description*>(p); }
layout& of(cublasLtMatrixLayout_t p) { return *reinterpret_cast<layout*>(p); }
preference& of(cublasLtMatmulPreference_t p) { return *reinterpret_cast<preference*>(p); }

bool of_8_bits(cudaDataType_t t) { return t == CUDA_R_8F_E4M3 || t == CUDA_R_8F_E5M2; }
std::size_t width(cudaDataType_t t) { return t == CUDA_R_64F ? 8 : t == CUDA_R_32F ? 4 : of_8_bits(t) ? 1 : 2; }
// A number of 8 bits, as the formats are defined; only E5M2 has infinities.
double number_of(std::uint8_t code, bool e4m3) {
  const int digits = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15, exponent = (code & 0x7f) >> digits,
            fraction = code & ((1 << digits) - 1);
  const double sign = code & 0x80 ? -1 : 1;
  if (e4m3 ? (code & 0x7f) == 0x7f : exponent == 31 && fraction != 0) return std::nan("");
  if (!e4m3 && exponent == 31) return sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - digits);
  return sign * std::ldexp((1 << digits) + fraction, exponent - bias - digits);
}
double get(const std::uint8_t* p, cudaDataType_t t) {
  const auto as = [&]<class T>(T x) { return std::memcpy(&x, p, sizeof x), x; };
  switch (t) {
    case CUDA_R_64F:
      return as(double());
    case CUDA_R_32F:
      return as(float());
    case CUDA_R_16BF:
      return float_of_bf16(as(std::uint16_t()));
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
      return number_of(*p, t == CUDA_R_8F_E4M3);
    default:
      return float_of_f16(as(std::uint16_t()));
  }
}
void put(std::uint8_t* p, cudaDataType_t t, double x) {
  const auto as = [&](auto y) { std::memcpy(p, &y, sizeof y); };
  switch (t) {
    case CUDA_R_64F:
      return as(x);
    case CUDA_R_32F:
      return as(static_cast<float>(x));
    case CUDA_R_16BF:
      return as(bf16_of(static_cast<float>(x)));
    default:
      return as(f16_of(static_cast<float>(x)));
  }
}

struct problem {
  description d;
  layout a, b, c, out;
  std::uint64_t m() const { return out.rows; }
  std::uint64_t n() const { return out.columns; }
  std::uint64_t k() const { return d.first == CUBLAS_OP_N ? a.columns : a.rows; }

  // What the documentation's tables say.
  cublasStatus_t judged() const {
    if (a.batch != b.batch || a.batch != c.batch || a.batch != out.batch || a.batch < 1)
      return CUBLAS_STATUS_INVALID_VALUE;
    const std::uint64_t rows = d.first == CUBLAS_OP_N ? a.rows : a.columns,
                        other = d.second == CUBLAS_OP_N ? b.rows : b.columns,
                        columns = d.second == CUBLAS_OP_N ? b.columns : b.rows;
    if (rows != m() || columns != n() || other != k() || c.rows != m() || c.columns != n())
      return CUBLAS_STATUS_INVALID_VALUE;
    for (const layout* l : {&a, &b, &c, &out})
      if (l->rows == 0 || l->columns == 0 || l->leading < static_cast<std::int64_t>(l->rows))
        return CUBLAS_STATUS_INVALID_VALUE;
    // One output behind the other, or each column's parts of all outputs behind each other.
    const auto rows_of_out = static_cast<std::int64_t>(out.rows),
               columns_of_out = static_cast<std::int64_t>(out.columns);
    const bool whole = out.stride >= out.leading * (columns_of_out - 1) + rows_of_out;
    const bool by_columns = out.stride >= rows_of_out && out.leading >= out.stride * (out.batch - 1) + rows_of_out;
    if (out.batch > 1 && !whole && !by_columns) return CUBLAS_STATUS_INVALID_VALUE;
    const bool wide = d.computes == CUBLAS_COMPUTE_64F;
    if (d.after != CUBLASLT_EPILOGUE_DEFAULT) {
      // Of several outputs, and of doubles, a strict library needn't take any.
      if ((d.after != CUBLASLT_EPILOGUE_BIAS && d.after != CUBLASLT_EPILOGUE_GELU_AUX &&
           d.after != CUBLASLT_EPILOGUE_GELU_AUX_BIAS) ||
          wide || out.batch > 1)
        return CUBLAS_STATUS_NOT_SUPPORTED;
      if (d.adds_bias() && !d.bias) return CUBLAS_STATUS_INVALID_VALUE;
      if (d.has_gelu() && (!d.before_gelu || d.leading_before_gelu % 8 != 0 || d.leading_before_gelu < rows_of_out))
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (of_8_bits(a.of) || of_8_bits(b.of)) return judged_of_8_bits();
    if (d.scale != (wide ? CUDA_R_64F : CUDA_R_32F) || a.of != b.of || c.of != out.of || d.scale_first ||
        d.scale_second)
      return CUBLAS_STATUS_NOT_SUPPORTED;
    if (wide) return a.of == CUDA_R_64F && out.of == CUDA_R_64F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
    const bool narrow = a.of == CUDA_R_16BF || a.of == CUDA_R_16F;
    if ((narrow && (out.of == a.of || out.of == CUDA_R_32F)) || (a.of == CUDA_R_32F && out.of == CUDA_R_32F))
      return CUBLAS_STATUS_SUCCESS;
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  // Both operands have 8 bits, one of them is E4M3, A is transposed and B isn't; extents and distances are of whole
  // 16 bytes. Epilogues, and several outputs, a strict library needn't take.
  cublasStatus_t judged_of_8_bits() const {
    const bool narrow_out = out.of == CUDA_R_16BF || out.of == CUDA_R_16F;
    if (!of_8_bits(a.of) || !of_8_bits(b.of) || (a.of == CUDA_R_8F_E5M2 && b.of == CUDA_R_8F_E5M2) ||
        d.computes != CUBLAS_COMPUTE_32F || d.scale != CUDA_R_32F || d.first != CUBLAS_OP_T ||
        d.second != CUBLAS_OP_N || d.after != CUBLASLT_EPILOGUE_DEFAULT || out.batch > 1 || c.of != out.of ||
        (!narrow_out && out.of != CUDA_R_32F))
      return CUBLAS_STATUS_NOT_SUPPORTED;
    if (k() % 16 != 0 || m() % 16 != 0 || a.leading % 16 != 0 || b.leading % 16 != 0 ||
        c.leading * static_cast<std::int64_t>(width(c.of)) % 16 != 0 ||
        out.leading * static_cast<std::int64_t>(width(out.of)) % 16 != 0)
      return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
  }
  // Of what an algorithm was asked for.
  std::uint64_t hash() const {
    std::uint64_t h = 1469598103934665603ull;
    const auto add = [&](auto x) { h = (h ^ static_cast<std::uint64_t>(x)) * 1099511628211ull; };
    add(d.computes), add(d.scale), add(d.first), add(d.second), add(d.after), add(d.leading_before_gelu);
    for (const layout* l : {&a, &b, &c, &out})
      add(l->of), add(l->rows), add(l->columns), add(l->leading), add(l->batch), add(l->stride);
    return h;
  }
};

struct job {
  problem p;
  double alpha, beta;
  const void *a, *b, *c;
  void* out;

  const std::uint8_t* column(const layout& l, const void* base, int z, std::uint64_t j) const {
    return static_cast<const std::uint8_t*>(base) +
           static_cast<std::int64_t>(width(l.of)) * (z * l.stride + static_cast<std::int64_t>(j) * l.leading);
  }
  bool there(const layout& l, const void* base, const char* which, bool is_read) const {
    machine& gpu = the_device().gpu;
    for (int z = 0; z < l.batch; ++z)
      for (std::uint64_t j = 0; j < l.columns; ++j) {
        const std::uint8_t* const at = column(l, base, z, j);
        const bool inside = gpu.inside(at, l.rows * width(l.of));
        if (inside && (!is_read || gpu.has_padding() || gpu.all_written(at, l.rows * width(l.of)))) continue;
        gpu.find_fault(std::string("cublasLtMatmul: column ") + std::to_string(j) + " of matrix " + std::to_string(z) +
                       " of " + which +
                       (inside ? " is read before it was written" : " isn't within one allocation of the device"));
        return false;
      }
    return true;
  }
  // What A or B is multiplied by; 1 where nothing is said.
  double scale_of(const float* at, const char* which) const {
    machine& gpu = the_device().gpu;
    if (!at) return 1;
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(at);
    if (!gpu.inside(bytes, sizeof(float)))
      gpu.find_fault(std::string("cublasLtMatmul: the scale of ") + which + " isn't in the device's memory");
    else if (!gpu.has_padding() && !gpu.all_written(bytes, sizeof(float)))
      gpu.find_fault(std::string("cublasLtMatmul: the scale of ") + which + " is read before it was written");
    else
      return get(bytes, CUDA_R_32F);
    return 1;
  }
  layout of_bias() const { return {p.out.of, p.m(), 1, static_cast<std::int64_t>(p.m())}; }
  layout of_before_gelu() const { return {p.out.of, p.m(), p.n(), p.d.leading_before_gelu}; }
  bool there_after() const {
    return (!p.d.adds_bias() || there(of_bias(), p.d.bias, "the bias", true)) &&
           (!p.d.has_gelu() || there(of_before_gelu(), p.d.before_gelu, "what is before gelu", false));
  }
  // Of the sum at row i and column j, what D gets; what is before gelu is stored.
  double finished(double sum, std::uint64_t i, std::uint64_t j) const {
    if (p.d.adds_bias()) sum += get(column(of_bias(), p.d.bias, 0, 0) + i * width(p.out.of), p.out.of);
    if (!p.d.has_gelu()) return sum;
    const layout l = of_before_gelu();
    auto* const to = const_cast<std::uint8_t*>(column(l, p.d.before_gelu, 0, j)) + i * width(l.of);
    put(to, l.of, sum);
    the_device().gpu.mark_written(to, width(l.of));
    return 0.5 * sum * (1 + std::tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
  }
  void run() const {
    if (!there(p.a, a, "A", true) || !there(p.b, b, "B", true) || (beta != 0 && !there(p.c, c, "C", true)) ||
        !there(p.out, out, "D", false) || !there_after())
      return;
    const double by = alpha * scale_of(p.d.scale_first, "A") * scale_of(p.d.scale_second, "B");
    const bool ta = p.d.first != CUBLAS_OP_N, tb = p.d.second != CUBLAS_OP_N;
    std::vector<double> left(p.m() * p.k()), sums(p.m());
    for (int z = 0; z < p.out.batch; ++z) {
      for (std::uint64_t i = 0; i < p.m(); ++i)
        for (std::uint64_t k = 0; k < p.k(); ++k)
          left[k * p.m() + i] = get(column(p.a, a, z, ta ? i : k) + (ta ? k : i) * width(p.a.of), p.a.of);
      for (std::uint64_t j = 0; j < p.n(); ++j) {
        std::fill(sums.begin(), sums.end(), 0.0);
        for (std::uint64_t k = 0; k < p.k(); ++k) {
          const double right = get(column(p.b, b, z, tb ? k : j) + (tb ? j : k) * width(p.b.of), p.b.of);
          for (std::uint64_t i = 0; i < p.m(); ++i) sums[i] += left[k * p.m() + i] * right;
        }
        auto* const to = const_cast<std::uint8_t*>(column(p.out, out, z, j));
        for (std::uint64_t i = 0; i < p.m(); ++i) {
          const double old = beta != 0 ? beta * get(column(p.c, c, z, j) + i * width(p.c.of), p.c.of) : 0;
          put(to + i * width(p.out.of), p.out.of, finished(by * sums[i] + old, i, j));
        }
        the_device().gpu.mark_written(to, p.m() * width(p.out.of));
      }
    }
  }
};

template <class T, class Given>
cublasStatus_t set(T& to, const Given* value, std::size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* h) {
  *h = reinterpret_cast<cublasLtHandle_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) { return delete reinterpret_cast<char*>(h), CUBLAS_STATUS_SUCCESS; }
const char* cublasLtGetStatusString(cublasStatus_t s) {
  return s == CUBLAS_STATUS_SUCCESS         ? "success"
         : s == CUBLAS_STATUS_INVALID_VALUE ? "an unsupported value or parameter was passed to the function"
         : s == CUBLAS_STATUS_NOT_SUPPORTED ? "the functionality requested is not supported"
                                            : "a status that the device on the host doesn't know";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t computes,
                                        cudaDataType_t scale) {
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(new description{computes, scale});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return delete &of(d), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what,
                                              const void* value, std::size_t bytes) {
  if (what == CUBLASLT_MATMUL_DESC_TRANSA) return set(of(d).first, value, bytes);
  if (what == CUBLASLT_MATMUL_DESC_TRANSB) return set(of(d).second, value, bytes);
  if (what == CUBLASLT_MATMUL_DESC_EPILOGUE) return set(of(d).after, value, bytes);
  if (what == CUBLASLT_MATMUL_DESC_BIAS_POINTER) return set(of(d).bias, value, bytes);
  if (what == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER) return set(of(d).before_gelu, value, bytes);
  if (what == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD) return set(of(d).leading_before_gelu, value, bytes);
  if (what == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER) return set(of(d).scale_first, value, bytes);
  if (what == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER) return set(of(d).scale_second, value, bytes);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType of_type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  if (of_type != CUDA_R_64F && of_type != CUDA_R_32F && of_type != CUDA_R_16BF && of_type != CUDA_R_16F &&
      !of_8_bits(of_type))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(new layout{of_type, rows, columns, leading});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { return delete &of(l), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t what,
                                                const void* value, std::size_t bytes) {
  if (what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return set(of(l).batch, value, bytes);
  if (what == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return set(of(l).stride, value, bytes);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = reinterpret_cast<cublasLtMatmulPreference_t>(new preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  return delete &of(p), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void* value,
                                                    std::size_t bytes) {
  switch (what) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(of(p).workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(of(p).alignment[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(of(p).alignment[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(of(p).alignment[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(of(p).alignment[3], value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t out, cublasLtMatmulPreference_t p, int asked,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
  *count = 0;
  if (asked < 1) return CUBLAS_STATUS_INVALID_VALUE;
  const problem what{of(d), of(a), of(b), of(c), of(out)};
  if (const cublasStatus_t s = what.judged(); s != CUBLAS_STATUS_SUCCESS) return s;
  const layout* const all[4] = {&what.a, &what.b, &what.c, &what.out};
  const auto aligned = [](const void* p) {
    const auto bits = reinterpret_cast<std::uintptr_t>(p) | 256u;
    return static_cast<std::uint32_t>(bits & (~bits + 1));
  };
  algorithm chosen{what.hash(), std::min(of(p).workspace, used_workspace), {}};
  for (int i = 0; i < 4; ++i) {
    chosen.alignment[i] = of(p).alignment[i];
    if (chosen.alignment[i] < (of_8_bits(what.a.of) ? 16 : width(all[i]->of))) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  // What these addresses have: a product with others has at least that.
  chosen.alignment[4] = aligned(what.d.bias), chosen.alignment[5] = aligned(what.d.before_gelu);
  for (int i = 4; i < 6; ++i)
    if (chosen.alignment[i] < width(what.out.of)) return CUBLAS_STATUS_NOT_SUPPORTED;
  found[0] = {};
  std::memcpy(&found[0].algo, &chosen, sizeof chosen);
  found[0].workspaceSize = chosen.workspace;
  found[0].state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t la, const void* b, cublasLtMatrixLayout_t lb, const void* beta,
                              const void* c, cublasLtMatrixLayout_t lc, void* out, cublasLtMatrixLayout_t lout,
                              const cublasLtMatmulAlgo_t* by, void* workspace, std::size_t workspace_bytes,
                              cudaStream_t on) {
  const problem what{of(d), of(la), of(lb), of(lc), of(lout)};
  algorithm chosen;
  if (!by) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&chosen, by, sizeof chosen);
  if (chosen.problem != what.hash()) return CUBLAS_STATUS_NOT_SUPPORTED;  // the same was judged when it was chosen
  if (const cublasStatus_t s = what.judged(); s != CUBLAS_STATUS_SUCCESS) return s;
  const void* const all[6] = {a, b, c, out, what.d.bias, what.d.before_gelu};
  for (int i = 0; i < 6; ++i)
    if (reinterpret_cast<std::uintptr_t>(all[i]) % chosen.alignment[i]) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (c == out && what.c != what.out) return CUBLAS_STATUS_INVALID_VALUE;
  state& s = the_device();
  held_lock held(s.lock);
  if (chosen.workspace && (workspace_bytes < chosen.workspace || reinterpret_cast<std::uintptr_t>(workspace) % 16 ||
                           !s.gpu.inside(workspace, workspace_bytes)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto number = [&](const void* p) { return get(static_cast<const std::uint8_t*>(p), what.d.scale); };
  const refusal why =
      s.give(on, "kernel", [todo = job{what, number(alpha), number(beta), a, b, c, out}](held_lock&) { todo.run(); });
  return why == refusal::none ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
