// The installed laws of element-wise kernels, on the CPU's, and on backends that get one thing wrong.
#include <algorithm>
#include <functional>
#include <numeric>

#include <doctest/doctest.h>

#include <weft/backend/cpu.hpp>
#include <weft/testing/backend/elementwise.hpp>

#include "laws_on_cpu.hpp"

namespace {
using namespace weft;

TEST_CASE("element-wise kernels obey their laws on every instruction set, with the same bits for one core and three") {
  laws_on_cpu(
      [](int threads) { return testing::check_elementwise_kernels<cpu_backend, double, float, bf16, fp16>(threads); });
}

struct overwrites : cpu_backend {  // a backward that forgets to add
  template <unary F, class T>
  static void apply_backward(queue& cores, std::int64_t n, const T* x, const T* dy, T* dx, bool) {
    cpu_backend::apply_backward<F>(cores, n, x, dy, dx, false);
  }
};
struct approximate : cpu_backend {  // gelu by its tanh form, under both names
  template <unary F, class T>
  static void apply(queue& cores, std::int64_t n, const T* x, T* y) {
    cpu_backend::apply<F == unary::gelu_exact ? unary::gelu : F>(cores, n, x, y);
  }
  template <class... Args>
  static void apply(queue& cores, binary f, const Args&... args) {
    cpu_backend::apply(cores, f, args...);
  }
};
struct swapped : cpu_backend {  // the operands of a broadcast in the other order
  using cpu_backend::apply;
  template <class T>
  static void apply(queue& cores, binary f, int ndim, const std::int64_t* e, const T* a, const std::int64_t* sa,
                    const T* b, const std::int64_t* sb, T* y) {
    cpu_backend::apply(cores, f, ndim, e, b, sb, a, sa, y);
  }
};
struct starts_anew : cpu_backend {  // empties what it writes first, which may be what it reads
  using cpu_backend::apply;
  template <class T>
  static void apply(queue& cores, binary f, int ndim, const std::int64_t* e, const T* a, const std::int64_t* sa,
                    const T* b, const std::int64_t* sb, T* y) {
    std::fill_n(y, std::accumulate(e, e + ndim, std::int64_t{1}, std::multiplies<>()), T{});
    cpu_backend::apply(cores, f, ndim, e, a, sa, b, sb, y);
  }
};
struct writes_always : cpu_backend {  // a number in memory that is NaN is one like any other
  template <class T>
  static void scale(queue& cores, std::int64_t n, const kernel_number& c, const T* x, T* y, bool add) {
    cpu_backend::scale(cores, n, c.value(), x, y, add);
  }
};
struct few {  // no kernels but those of memory
  using queue = cpu_backend::queue;
  static std::shared_ptr<queue> open(int ranks, int rank, int threads) {
    return cpu_backend::open(ranks, rank, threads);
  }
  static memory_source memory() { return {}; }
};

TEST_CASE("a backward that doesn't add, an approximation, operands that change places, a number, and a lack are told") {
  CHECK_THROWS_WITH_AS((testing::check_elementwise_kernels<overwrites, float>()),
                       doctest::Contains("the backend's identity of fp32: dx = f'(x) dy, added: element"), failure);
  CHECK_THROWS_WITH_AS((testing::check_elementwise_kernels<approximate, float>()),
                       doctest::Contains("the backend's gelu_exact of fp32: y = f(x): element"), failure);
  CHECK_THROWS_WITH_AS((testing::check_elementwise_kernels<swapped, float>()),
                       doctest::Contains("the backend's apply (binary) of fp32: y = a f b, broadcast"), failure);
  CHECK_THROWS_WITH_AS((testing::check_elementwise_kernels<starts_anew, float>()),
                       doctest::Contains("the backend's apply (binary) of fp32: a = a f b, broadcast"), failure);
  CHECK_THROWS_WITH_AS((testing::check_elementwise_kernels<writes_always, float>()),
                       doctest::Contains("the backend's scale of fp32: y, where c in memory is NaN: element"), failure);
  const auto lacks = testing::check_elementwise_kernels<few, float>();
  CHECK(lacks.tried.empty());
  CHECK_THROWS_WITH_AS(lacks.require_complete(), doctest::Contains("for identity of fp32, negate of fp32"), failure);
}

}  // namespace
