// That the stand-in for cuBLASLt refuses what its documentation doesn't promise: one wrong call for each refusal, a
// step away from one that is right.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/state.hpp"

namespace {

constexpr auto right = CUBLAS_STATUS_SUCCESS, invalid = CUBLAS_STATUS_INVALID_VALUE,
               unsupported = CUBLAS_STATUS_NOT_SUPPORTED;

struct matrix {
  cudaDataType_t of;
  std::uint64_t rows, columns;
  std::int64_t leading;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
};

// Memory of the device, in which every number of 16 bits is a bf16 of 1.
class memory {
 public:
  explicit memory(std::size_t bytes, bool written = true) {
    REQUIRE(cudaMalloc(&at_, bytes) == cudaSuccess);
    if (!written) return;
    const std::vector<std::uint16_t> ones(bytes / 2, 0x3f80);
    REQUIRE(cudaMemcpy(at_, ones.data(), bytes, cudaMemcpyHostToDevice) == cudaSuccess);
  }
  ~memory() { cudaFree(at_); }
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;
  std::uint8_t* at(std::size_t byte = 0) const { return static_cast<std::uint8_t*>(at_) + byte; }

 private:
  void* at_ = nullptr;
};
constexpr std::size_t room = 1 << 14;

// A product that is right: D [16, 8] of floats is half of A [16, 32] times B [32, 8], of bf16.
struct call {
  cublasComputeType_t computes = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  cublasOperation_t first = CUBLAS_OP_N, second = CUBLAS_OP_N;
  matrix a{CUDA_R_16BF, 16, 32, 16}, b{CUDA_R_16BF, 32, 8, 32}, c{CUDA_R_32F, 16, 8, 16}, d{CUDA_R_32F, 16, 8, 16};
  int asked = 1;
  std::uint64_t most_workspace = 1 << 20;
  std::uint32_t alignment[4] = {16, 16, 16, 16};
  bool tells_alignment = true;
  // Of the product itself, where its algorithm was chosen for what stands above.
  std::function<void(call&)> afterwards = [](call&) {};
  bool has_algorithm = true;
  float beta = 0;
  const memory in{room}, space{1 << 20, false}, unwritten{room, false};
  const void *pa = in.at(), *pb = in.at(), *pc = nullptr;
  memory out{room, false};
  void *pd = out.at(), *workspace = space.at();
  cublasLtEpilogue_t after = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* before_gelu = nullptr;
  std::int64_t leading_before_gelu = 0;
  const void *scale_a = nullptr, *scale_b = nullptr;
  std::size_t workspace_bytes = 1 << 20;

  cublasStatus_t chosen = right;  // what was said of the algorithm
  std::vector<std::string> found;

  cublasStatus_t made() {
    cublasLtHandle_t handle;
    cublasLtCreate(&handle);
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulPreferenceCreate(&wish);
    set(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
    if (tells_alignment) {
      set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment[0]);
      set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment[1]);
      set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment[2]);
      set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment[3]);
    }
    cublasLtMatmulHeuristicResult_t best;
    int count = 0;
    {
      const described now(*this);
      chosen = cublasLtMatmulAlgoGetHeuristic(handle, now.what, now.a, now.b, now.c, now.d, wish, asked, &best, &count);
    }
    CHECK(count == (chosen == right));
    cublasStatus_t answer = chosen;
    if (chosen == right) {
      afterwards(*this);
      const described now(*this);
      const float half = 0.5f;
      const double wide[2] = {0.5, beta};
      const bool is_wide = scale == CUDA_R_64F;
      const void* const alpha = is_wide ? static_cast<const void*>(&wide[0]) : &half;
      const void* const of_c = is_wide ? static_cast<const void*>(&wide[1]) : &beta;
      answer = cublasLtMatmul(handle, now.what, alpha, pa, now.a, pb, now.b, of_c, pc ? pc : pd, now.c, pd, now.d,
                              has_algorithm ? &best.algo : nullptr, workspace, workspace_bytes, nullptr);
      cudaDeviceSynchronize();
    }
    found = device::the_device().gpu.take_findings();
    cublasLtMatmulPreferenceDestroy(wish);
    cublasLtDestroy(handle);
    return answer;
  }

 private:
  template <class At, class What, class T>
  static void set(At at, What what, const T& value) {
    if constexpr (std::is_same_v<At, cublasLtMatmulPreference_t>)
      REQUIRE(cublasLtMatmulPreferenceSetAttribute(at, what, &value, sizeof value) == right);
    else if constexpr (std::is_same_v<At, cublasLtMatrixLayout_t>)
      REQUIRE(cublasLtMatrixLayoutSetAttribute(at, what, &value, sizeof value) == right);
    else
      REQUIRE(cublasLtMatmulDescSetAttribute(at, what, &value, sizeof value) == right);
  }
  // What cuBLASLt is told, while it lives.
  struct described {
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t a, b, c, d;
    explicit described(const call& x) : a(of(x.a)), b(of(x.b)), c(of(x.c)), d(of(x.d)) {
      cublasLtMatmulDescCreate(&what, x.computes, x.scale);
      set(what, CUBLASLT_MATMUL_DESC_TRANSA, x.first);
      set(what, CUBLASLT_MATMUL_DESC_TRANSB, x.second);
      if (x.after != CUBLASLT_EPILOGUE_DEFAULT) set(what, CUBLASLT_MATMUL_DESC_EPILOGUE, x.after);
      if (x.bias) set(what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, x.bias);
      if (x.before_gelu) set(what, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, x.before_gelu);
      if (x.leading_before_gelu) set(what, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, x.leading_before_gelu);
      if (x.scale_a) set(what, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, x.scale_a);
      if (x.scale_b) set(what, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, x.scale_b);
    }
    ~described() {
      cublasLtMatmulDescDestroy(what);
      for (const cublasLtMatrixLayout_t l : {a, b, c, d}) cublasLtMatrixLayoutDestroy(l);
    }
    described(const described&) = delete;
    described& operator=(const described&) = delete;
    static cublasLtMatrixLayout_t of(const matrix& m) {
      cublasLtMatrixLayout_t l;
      REQUIRE(cublasLtMatrixLayoutCreate(&l, m.of, m.rows, m.columns, m.leading) == right);
      set(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, m.batch);
      set(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, m.stride);
      return l;
    }
  };
};

// What is answered where `change` is made before an algorithm is chosen, and where it is made between that and its use.
cublasStatus_t chosen_with(const std::function<void(call&)>& change) {
  call x;
  change(x);
  x.made();
  return x.chosen;
}
cublasStatus_t used_with(const std::function<void(call&)>& change) {
  call x;
  x.afterwards = change;
  const cublasStatus_t answer = x.made();
  CHECK(x.chosen == right);
  CHECK(x.found.empty());
  return answer;
}
// The one finding of a product that is taken, and then reads or writes what it mustn't.
std::string found_with(const std::function<void(call&)>& change) {
  call x;
  change(x);
  CHECK(x.made() == right);
  REQUIRE(x.found.size() == 1);
  return x.found[0];
}

}  // namespace

TEST_CASE("a right product is taken, and is right") {
  call x;
  REQUIRE(x.made() == right);
  CHECK(x.found.empty());
  std::vector<float> got(16 * 8);
  cudaMemcpy(got.data(), x.pd, got.size() * sizeof(float), cudaMemcpyDeviceToHost);
  CHECK(got == std::vector<float>(16 * 8, 16.0f));
  call doubles;
  doubles.computes = CUBLAS_COMPUTE_64F, doubles.scale = CUDA_R_64F;
  for (matrix* m : {&doubles.a, &doubles.b, &doubles.c, &doubles.d}) m->of = CUDA_R_64F;
  CHECK(doubles.made() == right);
  CHECK(doubles.found.empty());
}

TEST_CASE("extents that don't meet") {
  const auto is_invalid = [](auto change) { CHECK(chosen_with(change) == invalid); };
  is_invalid([](call& x) { x.a.rows = x.a.leading = 17; });
  is_invalid([](call& x) { x.a.columns = 31; });
  is_invalid([](call& x) { x.b.columns = 7; });
  is_invalid([](call& x) { x.c.columns = 7; });
  is_invalid([](call& x) { x.c.rows = 15; });
  is_invalid([](call& x) { x.first = CUBLAS_OP_T; });  // as where the layout is turned and the attribute isn't set
  is_invalid([](call& x) { x.second = CUBLAS_OP_T; });
  is_invalid([](call& x) { x.a.columns = x.b.rows = 0; });
  for (matrix call::*const which : {&call::a, &call::b, &call::c, &call::d})
    is_invalid([=](call& x) { --(x.*which).leading; });  // less than the rows
}

TEST_CASE("batches that aren't alike, and outputs on top of each other") {
  for (matrix call::*const which : {&call::a, &call::b, &call::c, &call::d})
    CHECK(chosen_with([=](call& x) { (x.*which).batch = 2; }) == invalid);
  const auto two = [](call& x) {
    for (matrix* m : {&x.a, &x.b, &x.c, &x.d}) m->batch = 2;
    x.a.stride = 16 * 32, x.b.stride = 32 * 8, x.c.stride = x.d.stride = 16 * 8;
  };
  CHECK(chosen_with(two) == right);
  CHECK(chosen_with([&](call& x) { two(x), x.d.stride = 0; }) == invalid);  // as where it isn't set
  CHECK(chosen_with([&](call& x) { two(x), x.d.stride = 16 * 8 - 1; }) == invalid);
  CHECK(chosen_with([&](call& x) { two(x), x.d.leading = 32, x.d.stride = 16; }) == right);  // column by column
  CHECK(chosen_with([&](call& x) { two(x), x.d.leading = 32, x.d.stride = 17; }) == invalid);
  CHECK(chosen_with([&](call& x) { two(x), x.d.leading = 32, x.d.stride = 15; }) == invalid);
  CHECK(chosen_with([&](call& x) { two(x), x.a.stride = 0; }) == right);  // inputs may be shared
}

TEST_CASE("types that cuBLASLt doesn't multiply") {
  const auto is_unsupported = [](auto change) { CHECK(chosen_with(change) == unsupported); };
  is_unsupported([](call& x) { x.b.of = CUDA_R_16F; });
  is_unsupported([](call& x) { x.c.of = CUDA_R_16BF; });
  is_unsupported([](call& x) { x.scale = CUDA_R_64F; });
  is_unsupported([](call& x) { x.c.of = x.d.of = CUDA_R_16F; });
  is_unsupported([](call& x) { x.c.of = x.d.of = CUDA_R_64F; });
  is_unsupported([](call& x) { x.a.of = x.b.of = CUDA_R_64F; });
  is_unsupported([](call& x) { x.a.of = x.b.of = CUDA_R_32F, x.c.of = x.d.of = CUDA_R_16BF; });
  is_unsupported([](call& x) { x.computes = CUBLAS_COMPUTE_64F, x.scale = CUDA_R_64F; });
  cublasLtMatrixLayout_t l;
  CHECK(cublasLtMatrixLayoutCreate(&l, CUDA_R_8I, 16, 16, 16) == unsupported);
}

TEST_CASE("attributes of another size, and those that it doesn't know") {
  const auto of = [](auto make, auto destroy, auto set, auto known, auto other) {
    auto at = make();
    const std::uint64_t value = 0;
    CHECK(set(at, known, &value, 2) == invalid);
    CHECK(set(at, other, &value, sizeof value) == unsupported);
    destroy(at);
  };
  of(
      [] {
        cublasLtMatmulDesc_t d;
        cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F);
        return d;
      },
      cublasLtMatmulDescDestroy, cublasLtMatmulDescSetAttribute, CUBLASLT_MATMUL_DESC_TRANSA,
      CUBLASLT_MATMUL_DESC_FILL_MODE);
  of(
      [] {
        cublasLtMatrixLayout_t l;
        cublasLtMatrixLayoutCreate(&l, CUDA_R_32F, 1, 1, 1);
        return l;
      },
      cublasLtMatrixLayoutDestroy, cublasLtMatrixLayoutSetAttribute, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
      CUBLASLT_MATRIX_LAYOUT_ORDER);
  of(
      [] {
        cublasLtMatmulPreference_t p;
        cublasLtMatmulPreferenceCreate(&p);
        return p;
      },
      cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreferenceSetAttribute, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
}

TEST_CASE("an algorithm that wasn't asked for, or for something else") {
  CHECK(chosen_with([](call& x) { x.asked = 0; }) == invalid);
  CHECK(used_with([](call& x) { x.has_algorithm = false; }) == invalid);
  CHECK(used_with([](call& x) { x.computes = CUBLAS_COMPUTE_32F_PEDANTIC; }) == unsupported);
  CHECK(used_with([](call& x) { x.a.leading = 24; }) == unsupported);
  CHECK(used_with([](call& x) { x.a.columns = x.b.rows = 16; }) == unsupported);
  CHECK(used_with([](call& x) { x.b.stride = 256; }) == unsupported);
  CHECK(used_with([](call& x) { x.d.leading = 8; }) == unsupported);  // what no algorithm is for
  CHECK(used_with([](call& x) { x.first = CUBLAS_OP_T; }) == unsupported);
}

TEST_CASE("pointers that aren't aligned as was promised") {
  CHECK(used_with([](call& x) { x.pa = x.in.at(8); }) == unsupported);
  CHECK(used_with([](call& x) { x.pb = x.in.at(8); }) == unsupported);
  CHECK(used_with([](call& x) { x.pc = x.in.at(8); }) == unsupported);
  CHECK(used_with([](call& x) { x.pc = x.in.at(), x.pd = x.out.at(8); }) == unsupported);
  CHECK(used_with([](call& x) { x.pa = x.in.at(16), x.pd = x.out.at(16); }) == right);
  for (int i = 0; i < 4; ++i) {
    // Less than an element has; and 256 bytes, where nothing was promised.
    CHECK(chosen_with([=](call& x) { x.alignment[i] = i < 2 ? 1 : 2; }) == unsupported);
    call x;
    x.tells_alignment = false;
    x.pc = x.in.at();
    x.afterwards = [=](call& y) {
      if (i == 0) y.pa = y.in.at(16);
      if (i == 1) y.pb = y.in.at(16);
      if (i == 2) y.pc = y.in.at(16);
      if (i == 3) y.pd = y.out.at(16);
    };
    CHECK(x.made() == unsupported);
    CHECK(x.chosen == right);
  }
}

// D of 16-bit numbers, all 1 before: 16 + the bias, which is 1.
void with_bias(call& x) { x.c.of = x.d.of = CUDA_R_16BF, x.after = CUBLASLT_EPILOGUE_BIAS, x.bias = x.in.at(); }
// And gelu of that; what is before it lies behind D.
void with_gelu(call& x) {
  with_bias(x);
  x.after = CUBLASLT_EPILOGUE_GELU_AUX_BIAS, x.before_gelu = x.out.at(1024), x.leading_before_gelu = 24;
}

TEST_CASE("a bias is added to every column, and gelu follows, of the sums before they are rounded") {
  const auto numbers = [](const call& x, std::size_t at, std::size_t count) {
    std::vector<std::uint16_t> got(count);
    cudaMemcpy(got.data(), x.out.at(at), 2 * count, cudaMemcpyDeviceToHost);
    return got;
  };
  const std::vector<std::uint16_t> seventeen(16 * 8, 0x4188);
  call biased, active;
  with_bias(biased), with_gelu(active);
  CHECK(biased.made() == right);
  CHECK(biased.found.empty());
  CHECK(numbers(biased, 0, 16 * 8) == seventeen);
  CHECK(active.made() == right);
  CHECK(active.found.empty());
  CHECK(numbers(active, 0, 16 * 8) == seventeen);  // gelu(17), to 16 bits
  CHECK(numbers(active, 1024 + 24 * 2 * 7, 16) == std::vector<std::uint16_t>(16, 0x4188));
  call alone;
  with_gelu(alone);
  alone.after = CUBLASLT_EPILOGUE_GELU_AUX, alone.beta = -1, alone.pc = alone.in.at();
  CHECK(alone.made() == right);
  CHECK(numbers(alone, 0, 1)[0] == 0x4170);  // 16 - 1
}

TEST_CASE("epilogues that aren't told whole, or that cuBLASLt needn't take") {
  CHECK(chosen_with(with_gelu) == right);
  CHECK(chosen_with([](call& x) { with_bias(x), x.bias = nullptr; }) == invalid);
  CHECK(chosen_with([](call& x) { with_gelu(x), x.before_gelu = nullptr; }) == invalid);
  CHECK(chosen_with([](call& x) { with_gelu(x), x.leading_before_gelu = 0; }) == invalid);  // as where it isn't set
  CHECK(chosen_with([](call& x) { with_gelu(x), x.leading_before_gelu = 20; }) == invalid);
  CHECK(chosen_with([](call& x) { with_gelu(x), x.leading_before_gelu = 8; }) == invalid);
  CHECK(chosen_with([](call& x) { with_bias(x), x.after = CUBLASLT_EPILOGUE_RELU_BIAS; }) == unsupported);
  CHECK(chosen_with([](call& x) { with_bias(x), x.bias = x.in.at(1); }) == unsupported);
  CHECK(chosen_with([](call& x) {
          with_bias(x), x.computes = CUBLAS_COMPUTE_64F, x.scale = CUDA_R_64F;
          for (matrix* m : {&x.a, &x.b, &x.c, &x.d}) m->of = CUDA_R_64F;
        }) == unsupported);
  CHECK(chosen_with([](call& x) {
          with_bias(x);
          for (matrix* m : {&x.a, &x.b, &x.c, &x.d}) m->batch = 2, m->stride = 16 * 32;
        }) == unsupported);
  // An algorithm is for one epilogue, and for addresses so aligned as it was told.
  const auto then = [](void (*first)(call&), const std::function<void(call&)>& change) {
    call x;
    first(x);
    x.afterwards = change;
    const cublasStatus_t answer = x.made();
    CHECK(x.chosen == right);
    return answer;
  };
  CHECK(then(with_bias, [](call& x) { x.bias = x.in.at(8); }) == unsupported);
  CHECK(then(with_bias, [](call& x) { x.bias = x.in.at(256); }) == right);
  CHECK(then(with_bias, [](call& x) { x.bias = nullptr; }) == invalid);
  CHECK(then(with_bias, [](call& x) { x.after = CUBLASLT_EPILOGUE_DEFAULT; }) == unsupported);
  CHECK(then(with_gelu, [](call& x) { x.before_gelu = x.out.at(1028); }) == unsupported);
  CHECK(then(with_gelu, [](call& x) { x.leading_before_gelu = 32; }) == unsupported);
}

// A of numbers of 8 bits, which lie as its transpose. Bytes of ours are by turns 0x80 and 0x3f.
void in_8_bits(call& x) { x.first = CUBLAS_OP_T, x.a = {CUDA_R_8F_E4M3, 32, 16, 32}, x.b.of = CUDA_R_8F_E4M3; }

TEST_CASE("numbers of 8 bits, each operand's under a scale that lies in the device's memory") {
  const auto first = [](call& x) {
    CHECK(x.made() == right);
    CHECK(x.found.empty());
    float got[2];
    cudaMemcpy(got, x.out.at(), sizeof got, cudaMemcpyDeviceToHost);
    CHECK(got[0] == got[1]);
    return got[0];
  };
  call both, one, scaled;
  in_8_bits(both), in_8_bits(one), in_8_bits(scaled);
  CHECK(first(both) == 16 * 1.875f * 1.875f / 2);  // 0x3f is 1.875, and 0x80 a zero
  one.b.of = CUDA_R_8F_E5M2;
  CHECK(first(one) == 16 * 1.875f * 1.75f / 2);
  scaled.scale_a = scaled.scale_b = scaled.in.at();
  const float scale = 1 + 0x3f80 * 0x1p-23f;
  CHECK(first(scaled) == static_cast<float>(16 * 1.875 * 1.875 / 2 * scale * scale));
}

TEST_CASE("numbers of 8 bits that a strict library needn't take") {
  CHECK(chosen_with(in_8_bits) == right);
  const auto with = [](const std::function<void(call&)>& change) {
    return chosen_with([&](call& x) { in_8_bits(x), change(x); });
  };
  CHECK(with([](call& x) { x.a.of = x.b.of = CUDA_R_8F_E5M2; }) == unsupported);
  CHECK(with([](call& x) { x.b.of = CUDA_R_16BF; }) == unsupported);
  CHECK(with([](call& x) { x.first = CUBLAS_OP_N, x.a = {CUDA_R_8F_E4M3, 16, 32, 16}; }) == unsupported);
  CHECK(with([](call& x) { x.second = CUBLAS_OP_T, x.b = {CUDA_R_8F_E4M3, 8, 32, 16}; }) == unsupported);
  CHECK(with([](call& x) { x.a.rows = x.b.rows = 24; }) == unsupported);
  CHECK(with([](call& x) { x.a.leading = 40; }) == unsupported);
  CHECK(with([](call& x) { x.b.leading = 40; }) == unsupported);
  CHECK(with([](call& x) { x.a.columns = x.c.rows = x.d.rows = 8; }) == unsupported);
  CHECK(with([](call& x) { x.d.leading = x.c.leading = 18; }) == unsupported);
  CHECK(with([](call& x) { x.c.of = x.d.of = CUDA_R_64F; }) == unsupported);
  CHECK(with([](call& x) { x.computes = CUBLAS_COMPUTE_32F_FAST_16BF; }) == unsupported);
  CHECK(with(with_bias) == unsupported);
  CHECK(with([](call& x) { x.alignment[1] = 8; }) == unsupported);
  CHECK(with([](call& x) {
          for (matrix* m : {&x.a, &x.b, &x.c, &x.d}) m->batch = 2, m->stride = 16 * 32;
        }) == unsupported);
  CHECK(chosen_with([](call& x) { x.scale_a = x.in.at(); }) == unsupported);  // of 16 bits there is none
  CHECK(found_with([](call& x) { in_8_bits(x), x.scale_a = x.unwritten.at(); }) ==
        "cublasLtMatmul: the scale of A is read before it was written");
  static const float of_host = 1;
  CHECK(found_with([](call& x) { in_8_bits(x), x.scale_b = &of_host; }) ==
        "cublasLtMatmul: the scale of B isn't in the device's memory");
}

TEST_CASE("a workspace that isn't what was promised") {
  CHECK(used_with([](call& x) { x.workspace_bytes = (1 << 20) - 1; }) == invalid);
  CHECK(used_with([](call& x) { x.workspace = x.space.at(8), x.workspace_bytes -= 8; }) == invalid);
  CHECK(used_with([](call& x) { x.workspace_bytes = (1 << 20) + 1; }) == invalid);  // more than is allocated
  static std::uint8_t of_host[1 << 20];
  CHECK(used_with([](call& x) { x.workspace = of_host; }) == invalid);
  CHECK(used_with([](call& x) { x.workspace = nullptr; }) == invalid);
  call none;  // where none is wanted none is needed
  none.most_workspace = 0, none.workspace = nullptr, none.workspace_bytes = 0;
  CHECK(none.made() == right);
}

TEST_CASE("one place for the old numbers and the new ones, laid out in two ways") {
  CHECK(chosen_with([](call& x) { x.c.leading = 32, x.pc = x.in.at(); }) == right);
  call x;
  x.c.leading = 32;
  CHECK(x.made() == invalid);
  CHECK(x.chosen == right);
}

TEST_CASE("operands outside of the device's memory, and numbers that nobody wrote") {
  static std::uint16_t of_host[4096];
  const auto outside = [](const std::string& which, int column) {
    return "cublasLtMatmul: column " + std::to_string(column) + " of matrix 0 of " + which +
           " isn't within one allocation of the device";
  };
  CHECK(found_with([](call& x) { x.pa = of_host; }) == outside("A", 0));
  CHECK(found_with([](call& x) { x.pb = of_host; }) == outside("B", 0));
  CHECK(found_with([](call& x) { x.pc = of_host, x.beta = 1; }) == outside("C", 0));
  CHECK(found_with([](call& x) { x.pc = x.in.at(), x.pd = of_host; }) == outside("D", 0));
  // The last column is one number too far.
  CHECK(found_with([](call& x) { x.alignment[0] = 2, x.pa = x.in.at(room - 16 * 32 * 2 + 2); }) == outside("A", 31));
  CHECK(found_with([](call& x) { x.alignment[3] = 4, x.pc = x.in.at(), x.pd = x.out.at(room - 16 * 8 * 4 + 4); }) ==
        outside("D", 7));
  const auto unwritten = [](const std::string& which) {
    return "cublasLtMatmul: column 0 of matrix 0 of " + which + " is read before it was written";
  };
  CHECK(found_with([](call& x) { x.pa = x.unwritten.at(); }) == unwritten("A"));
  CHECK(found_with([](call& x) { x.pb = x.unwritten.at(); }) == unwritten("B"));
  CHECK(found_with([](call& x) { x.pc = x.unwritten.at(), x.beta = 1; }) == unwritten("C"));
  CHECK(found_with([](call& x) { with_bias(x), x.bias = x.unwritten.at(); }) == unwritten("the bias"));
  CHECK(found_with([](call& x) { with_bias(x), x.bias = x.in.at(room - 16); }) == outside("the bias", 0));
  CHECK(found_with([](call& x) { with_gelu(x), x.before_gelu = x.out.at(room - 16 * 22); }) ==
        outside("what is before gelu", 7));
  CHECK(used_with([](call& x) { x.pc = x.unwritten.at(); }) == right);  // times 0 it isn't read
}
