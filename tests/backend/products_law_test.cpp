// The installed law of matrix products, on the CPU's, and on backends that get one thing wrong.
#include <doctest/doctest.h>

#include <weft/backend/cpu.hpp>
#include <weft/testing/backend/products.hpp>

#include "laws_on_cpu.hpp"

namespace {
using namespace weft;

TEST_CASE("matrix products obey their law on every instruction set, with the same bits for one core and three") {
  laws_on_cpu(
      [](int threads) { return testing::check_matmul_kernels<cpu_backend, double, float, bf16, fp16>(threads, 100); });
}

template <int Wrong>
struct product_with : cpu_backend {
  template <class T, class Out>
  static void matmul(queue& cores, const matmul_shape& size, const T* a, strides sa, const T* b, strides sb, Out* c,
                     const strides& sc, bool accumulate) {
    if (Wrong == 0) accumulate = false;
    if (Wrong == 1 && size.batch > 1) sb.batch = size.k * size.n;  // as if matrices lay close together
    cpu_backend::matmul(cores, size, a, sa, b, sb, c, sc, accumulate);
    if (Wrong == 2 && size.m > 1 && sc.row > size.n)
      for (std::int64_t i = 0; i < size.m - 1; ++i) c[i * sc.row + size.n] = Out(0);  // clears the gap behind a row
  }
};

TEST_CASE("a product that doesn't add, takes another matrix of a batch, or writes between rows is told") {
  CHECK_THROWS_WITH_AS((testing::check_matmul_kernels<product_with<0>, double>()),
                       doctest::Contains("the backend's matmul of fp64: c of"), failure);
  CHECK_THROWS_WITH_AS((testing::check_matmul_kernels<product_with<1>, double>()),
                       doctest::Contains("the backend's matmul of fp64: c of"), failure);
  CHECK_THROWS_WITH_AS((testing::check_matmul_kernels<product_with<2>, double>()),
                       doctest::Contains("between the rows of c, is 0, not 77"), failure);
}

}  // namespace
