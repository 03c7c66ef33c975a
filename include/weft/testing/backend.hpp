// The laws of a backend: every kernel that operators call, held to plain loops in double, in the element types that the
// backend claims. Needs no test framework. The parts are in backend/, for programs that would rather compile them
// apart. Invariant: a kernel that is there and wrong is told; one that isn't there is listed.
#pragma once

#include <weft/testing/backend/attention.hpp>
#include <weft/testing/backend/choice.hpp>
#include <weft/testing/backend/elementwise.hpp>
#include <weft/testing/backend/float8.hpp>
#include <weft/testing/backend/memory.hpp>
#include <weft/testing/backend/products.hpp>
#include <weft/testing/backend/reductions.hpp>
#include <weft/testing/backend/rows.hpp>
#include <weft/testing/backend/training.hpp>

namespace weft::testing {

/// Throws weft::failure with the first kernel of backend B that gives another output than loops in double do (element
/// types Ts; extents of 0 and 1, odd and large; `add` and not; strides, broadcasts and gaps; slices of a vocabulary or
/// of an index space), or writes behind its output's end. Returns which kernels were tried, and which B lacks:
/// operators that call those don't compile on it. Memory's kernels every backend has. Cost: seconds, and as many to
/// compile.
///
///   const testing::backend_report laws = testing::check_backend<mine, float, bf16>();
template <class B, class... Ts>
backend_report check_backend(int threads = 1) {
  static_assert(sizeof...(Ts) > 0,
                "weft: check_backend is told the element types that a backend claims: "
                "check_backend<mine, float, bf16>()");
  backend_report all = check_memory_kernels<B, Ts...>(threads);
  const auto family = [&](backend_report (*check)(int)) { all.join(check(threads)); };
  family(check_elementwise_kernels<B, Ts...>);
  family(check_reduction_kernels<B, Ts...>);
  all.join(check_matmul_kernels<B, Ts...>(threads));
  all.join(check_float8_kernels<B, Ts...>(threads));
  family(check_row_kernels<B, Ts...>);
  family(check_attention_kernels<B, Ts...>);
  family(check_training_kernels<B, Ts...>);
  family(check_choice_kernels<B, Ts...>);
  return all;
}

}  // namespace weft::testing
