// The installed laws of reductions, on the CPU's, and on backends that get one thing wrong.
#include <doctest/doctest.h>

#include <weft/backend/cpu.hpp>
#include <weft/testing/backend/reductions.hpp>

#include "laws_on_cpu.hpp"

namespace {
using namespace weft;

TEST_CASE("reductions obey their laws on every instruction set, with the same bits for one core and three") {
  laws_on_cpu(
      [](int threads) { return testing::check_reduction_kernels<cpu_backend, double, float, bf16, fp16>(threads); });
}

struct from_zero : cpu_backend {  // a maximum that begins at 0
  template <reduce Kind, class T, class Out>
  static void reduce_dims(queue& cores, int ndim, const std::int64_t* e, const bool* gone, const T* x, Out* y,
                          bool add) {
    cpu_backend::reduce_dims<Kind>(cores, ndim, e, gone, x, y, add);
    std::int64_t n = 1;
    for (int d = 0; d < ndim; ++d) n *= gone[d] ? 1 : e[d];
    if constexpr (Kind == reduce::max)
      for (std::int64_t i = 0; i < n; ++i) y[i] = y[i] > Out(0) ? y[i] : Out(0);
  }
};
struct counts_all : cpu_backend {  // statistics that take what is not finite for a number
  template <class T>
  static array_statistics statistics(queue& cores, std::int64_t n, const T* x) {
    array_statistics s = cpu_backend::statistics(cores, n, x);
    s.not_finite = 0;
    return s;
  }
};

struct forgets : cpu_backend {  // a sum of squares that never adds
  template <class T>
  static void sum_of_squares(queue& cores, std::int64_t n, const T* x, double* to, bool) {
    cpu_backend::sum_of_squares(cores, n, x, to, false);
  }
};

TEST_CASE("a maximum from zero, statistics that count NaN, and a sum that isn't added, are told") {
  CHECK_THROWS_WITH_AS((testing::check_reduction_kernels<from_zero, float>()),
                       doctest::Contains("the backend's reduce_dims of fp32: maximum: element"), failure);
  CHECK_THROWS_WITH_AS((testing::check_reduction_kernels<counts_all, float>()), doctest::Contains("1 are not finite"),
                       failure);
  CHECK_THROWS_WITH_AS((testing::check_reduction_kernels<forgets, float>()),
                       doctest::Contains("sum of squares, added: element 0 of 1 is"), failure);
}

}  // namespace
