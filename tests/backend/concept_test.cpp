// The concepts of a backend's kernels hold for the CPU in every element type, and for one that lacks a kernel those
// alone fail that ask for it.
#include <doctest/doctest.h>

#include <weft/backend/cpu.hpp>
#include <weft/backend/kernels.hpp>

namespace {
using namespace weft;

template <class... Ts>
constexpr bool on_cpu = (backend_for<cpu_backend, Ts> && ...);

struct without_attention : cpu_backend {
  template <class... Args>
  static void attention_backward(queue&, const Args&...) = delete;
};
struct without_sums_in_float : cpu_backend {  // a gradient in T alone
  template <class T>
  static void embedding_backward(queue&, std::int64_t, std::int64_t, const std::int32_t*, std::int64_t, std::int64_t,
                                 const T*, T*, bool) {}
};
struct without_few_bits : cpu_backend {
  template <class... Args>
  static void dequantise(queue&, const Args&...) = delete;
};
struct without_lines : cpu_backend {
  template <class... Args>
  static void each_line(queue&, const Args&...) = delete;
};
struct without_memory : cpu_backend {
  static void memory() = delete;
};

TEST_CASE("a backend has all kernels of a type, or lacks those that a concept names") {
  CHECK(on_cpu<double, float, bf16, fp16>);
  CHECK(!attention_kernels<without_attention, float>);
  CHECK(rope_kernel<without_attention, float>);
  CHECK(!backend_for<without_attention, float>);
  CHECK(embedding_kernels<without_sums_in_float, bf16>);
  CHECK(!embedding_kernels<without_sums_in_float, bf16, float>);
  CHECK(backend_for<without_sums_in_float, float>);
  CHECK(!backend_for<without_sums_in_float, bf16>);
  CHECK(!dequantise_kernel<without_few_bits, bf16>);
  CHECK(adamw_kernel<without_few_bits, bf16>);
  CHECK(!backend_for<without_few_bits, bf16>);
  CHECK(formula_kernels<cpu_backend>);
  CHECK(!formula_kernels<without_lines>);
  CHECK(!backend_for<without_lines, float>);
  CHECK(!backend_with_queue<without_memory>);
}

}  // namespace
