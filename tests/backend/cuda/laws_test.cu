// The laws of backends on a GPU: every kernel of cuda_backend against plain loops in double, in four element types, or,
// where WEFT_TEST_ONE_TYPE is defined, in bf16.
// Needs a GPU. Invariant: each kernel and type is tried by itself, so that one failure hides no other; and no result
// differs from run to run.
#pragma nv_diag_suppress 445  // of a lambda whose template parameter is named and not deduced

#include <algorithm>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <weft/backend/cuda.cuh>
#include <weft/testing/backend.hpp>

namespace {

using weft::bf16, weft::fp16, weft::unary;
using B = weft::cuda_backend;
namespace law = weft::testing::detail::kernels;

// Two blocks at most, so that each has several tiles to go through: else that takes more tiles than a law has.
struct two_blocks : weft::gpu::stream {
  using stream::stream;
  template <class Kernel>
  void start(std::int64_t blocks, std::size_t shared_bytes, const Kernel& kernel) {
    stream::start(std::min<std::int64_t>(blocks, 2), shared_bytes, kernel);
  }
};
struct on_two_blocks : weft::gpu::memory_words<two_blocks>, weft::gpu::attention_words<two_blocks> {
  using queue = two_blocks;
  static std::shared_ptr<queue> open(int, int, int) { return std::make_shared<queue>(0); }
  static weft::memory_source memory() { return weft::gpu::device_memory(); }
};

/// f(bench) on a queue of its own. A kernel that is wrong, or isn't there, is one failed check.
template <class Backend = B, class F>
void obeys(F f) {
  try {
    law::bench<Backend> b(1);
    f(b);
    for (const std::string& kernel : b.report.lacking) FAIL_CHECK("there is no " << kernel);
  } catch (const weft::failure& e) {
    FAIL_CHECK(std::string(e.what()));
  }
}

#ifdef WEFT_TEST_ONE_TYPE
#define FOUR_TYPES bf16
#else
#define FOUR_TYPES float, double, bf16, fp16
#endif

}  // namespace

TEST_CASE_TEMPLATE("laws of memory", T, FOUR_TYPES) {
  obeys([](auto& b) { law::memory_of_type<T>(b); });
  obeys([](auto& b) { law::conversion<T, float>(b), law::conversion<T, double>(b); });
  obeys([](auto& b) { law::conversion<T, bf16>(b), law::conversion<T, fp16>(b); });
}

TEST_CASE_TEMPLATE("laws of functions of one number", T, FOUR_TYPES) {
  obeys([](auto& b) { law::function_of_one<unary::identity, T>(b, "identity"); });
  obeys([](auto& b) { law::function_of_one<unary::negate, T>(b, "negate"); });
  obeys([](auto& b) { law::function_of_one<unary::exp, T>(b, "exp"); });
  obeys([](auto& b) { law::function_of_one<unary::log, T>(b, "log"); });
  obeys([](auto& b) { law::function_of_one<unary::sqrt, T>(b, "sqrt"); });
  obeys([](auto& b) { law::function_of_one<unary::rsqrt, T>(b, "rsqrt"); });
  obeys([](auto& b) { law::function_of_one<unary::reciprocal, T>(b, "reciprocal"); });
  obeys([](auto& b) { law::function_of_one<unary::square, T>(b, "square"); });
  obeys([](auto& b) { law::function_of_one<unary::abs, T>(b, "abs"); });
  obeys([](auto& b) { law::function_of_one<unary::tanh, T>(b, "tanh"); });
  obeys([](auto& b) { law::function_of_one<unary::sigmoid, T>(b, "sigmoid"); });
  obeys([](auto& b) { law::function_of_one<unary::relu, T>(b, "relu"); });
  obeys([](auto& b) { law::function_of_one<unary::silu, T>(b, "silu"); });
  obeys([](auto& b) { law::function_of_one<unary::gelu, T>(b, "gelu"); });
  obeys([](auto& b) { law::function_of_one<unary::gelu_exact, T>(b, "gelu_exact"); });
}

TEST_CASE_TEMPLATE("laws of functions of two numbers, of scale and of swiglu", T, FOUR_TYPES) {
  obeys([](auto& b) { law::functions_of_two<T>(b); });
  obeys([](auto& b) { law::scaled<T>(b); });
  obeys([](auto& b) { law::gated<T>(b); });
}

TEST_CASE_TEMPLATE("laws of reductions", T, FOUR_TYPES) {
  obeys([](auto& b) { law::reductions<T, T>(b); });
  if constexpr (sizeof(T) == 2) obeys([](auto& b) { law::reductions<T, float>(b); });
  obeys([](auto& b) { law::repeated<T>(b); });
  obeys([](auto& b) { law::whole_arrays<T>(b); });
}

TEST_CASE_TEMPLATE("laws of matrix products", T, FOUR_TYPES) {
  obeys([](auto& b) { law::products<T, T>(b, 60); });
  if constexpr (sizeof(T) == 2) obeys([](auto& b) { law::products<T, float>(b, 60); });
}

TEST_CASE_TEMPLATE("laws of softmax", T, FOUR_TYPES) {
  obeys([](auto& b) { law::softmaxes<T>(b); });
}

TEST_CASE_TEMPLATE("laws of RMSNorm and LayerNorm", T, FOUR_TYPES) {
  obeys([](auto& b) { law::norms<false, T>(b); });
  obeys([](auto& b) { law::norms<true, T>(b); });
}

TEST_CASE_TEMPLATE("laws of the norms with residual", T, FOUR_TYPES) {
  obeys([](auto& b) { law::norms_with_residual<false, T>(b); });
  obeys([](auto& b) { law::norms_with_residual<true, T>(b); });
}

TEST_CASE_TEMPLATE("laws of cross-entropy's parts", T, FOUR_TYPES) {
  obeys([](auto& b) { law::losses<T>(b); });
}

TEST_CASE_TEMPLATE("laws of attention", T, FOUR_TYPES) {
  obeys([](auto& b) { law::attentions<T>(b); });
}

TEST_CASE_TEMPLATE("laws of attention, several tiles to a block", T, FOUR_TYPES) {
  obeys<on_two_blocks>([](auto& b) {
    std::vector<law::attention_case> cases{{{1, 70, 70, 4, 2, 16, 0.25, true}, {20, 50}}};
    // Of tensor cores: tiles of keys enough that their places in shared memory are used again; queries that see none
    // between others.
    if (sizeof(T) == 2)
      cases = {{{1, 140, 200, 2, 2, 64, 0.12, true}},
               {{1, 270, 10, 2, 1, 64, 0.2, true}},
               {{1, 200, 200, 2, 2, 128, 0.09, true}, {150, 1, 49}},
               cases[0]};
    law::attentions<T>(b, cases);
  });
}

// Rows that are copied by another order of lanes, and warps that share rows.
TEST_CASE_TEMPLATE("laws of attention on two blocks, heads of 96 and of 256", T, bf16, fp16) {
  obeys<on_two_blocks>([](auto& b) {
    law::attentions<T>(b, {{{1, 140, 150, 2, 2, 96, 0.1, true}},
                           {{1, 140, 70, 2, 2, 256, 0.06, true}},
                           {{1, 270, 10, 2, 1, 256, 0.06, true}},
                           {{1, 140, 140, 2, 2, 256, 0.06, true}, {90, 1, 49}}});
  });
}

TEST_CASE_TEMPLATE("laws of rotary positions", T, FOUR_TYPES) {
  obeys([](auto& b) { law::rotations<T>(b); });
}

TEST_CASE_TEMPLATE("laws of embedding, dropout and AdamW", T, FOUR_TYPES) {
  obeys([](auto& b) { law::embeddings<T, T>(b); });
  if constexpr (sizeof(T) == 2) obeys([](auto& b) { law::embeddings<T, float>(b); });
  obeys([](auto& b) { law::dropouts<T>(b); });
  using A = weft::accumulate_t<T>;
  obeys([](auto& b) { law::adamw_steps<A, T, T>(b); });
  if constexpr (sizeof(T) == 2) obeys([](auto& b) { law::adamw_steps<A, A, T>(b); });
  if constexpr (sizeof(T) <= 4) obeys([](auto& b) { law::rounded_adamw_steps<float, T>(b); });
}

TEST_CASE("laws of what a formula brings") {
  obeys([](auto& b) { law::loops(b); });
}

#ifndef WEFT_TEST_ONE_TYPE
TEST_CASE("all laws, twice, give the same bits") {
  const auto all = [] { return weft::testing::check_backend<B, FOUR_TYPES>().require_complete().digest; };
  CHECK(all() == all());
}
#endif
