// The installed laws of kernels of rows, on the CPU's, and on backends that get one thing wrong.
#include <doctest/doctest.h>

#include <weft/backend/cpu.hpp>
#include <weft/testing/backend/rows.hpp>

#include "laws_on_cpu.hpp"

namespace {
using namespace weft;
using std::int64_t;

TEST_CASE("kernels of rows obey their laws on every instruction set, with the same bits for one core and three") {
  laws_on_cpu([](int threads) { return testing::check_row_kernels<cpu_backend, double, float, bf16, fp16>(threads); });
}

struct no_maximum : cpu_backend {  // exponentials of the logits as they are
  template <class T>
  static void softmax(queue& cores, int64_t outer, int64_t n, int64_t inner, const T* x, T* y) {
    if (outer == 1 && inner == 1 && n == 4) {
      double total = 0;
      for (int64_t i = 0; i < n; ++i) total += std::exp(double(x[i]));
      for (int64_t i = 0; i < n; ++i) y[i] = T(float(std::exp(double(x[i])) / total));
      return;
    }
    cpu_backend::softmax(cores, outer, n, inner, x, y);
  }
};
struct any_target : cpu_backend {  // a target that another slice has is looked for in this one
  template <class T, class A>
  static void row_sums(queue& cores, int64_t rows, int64_t n, const T* x, int64_t begin, const std::int32_t* targets,
                       const A* m, A* e, A* logit, A* sums, int64_t width) {
    cpu_backend::row_sums(cores, rows, n, x, begin, targets, m, e, logit, sums, width);
    for (int64_t r = 0; r < rows; ++r)
      if (targets[r] >= 0) logit[r] = A(x[r * width + std::clamp<int64_t>(targets[r] - begin, 0, n - 1)]);
  }
};
struct fewer_rows : cpu_backend {  // a weight's gradient without the last row's part
  template <class T, class A, class G>
  static void rms_norm_backward(queue& cores, int64_t rows, int64_t width, const T* x, const T* w, const A* rstd,
                                const T* dy, T* dx, bool add_x, G* dw, bool add_w) {
    cpu_backend::rms_norm_backward(cores, rows, width, x, w, rstd, dy, dx, add_x, static_cast<G*>(nullptr), false);
    if (dw)
      cpu_backend::rms_norm_backward(cores, rows - 1, width, x, w, rstd, dy, static_cast<T*>(nullptr), false, dw,
                                     add_w);
  }
};

struct wide_sum : cpu_backend {  // normed is what the sum was before it was rounded to its type
  template <class T, class A>
  static void add_rms_norm(queue& cores, int64_t rows, int64_t width, double eps, const T* x, const T* r, const T* w,
                           T* h, T* y, A* rstd) {
    cpu_backend::add_rms_norm(cores, rows, width, eps, x, r, w, h, y, rstd);
    for (int64_t i = 0; i < rows; ++i) {
      double squares = 0;
      for (int64_t j = i * width; j < (i + 1) * width; ++j) squares += std::pow(double(x[j]) + double(r[j]), 2);
      rstd[i] = A(1 / std::sqrt(squares / double(width) + eps));
    }
  }
};

TEST_CASE("large logits, a target in another slice, a row left out and a sum that isn't rounded are told") {
  CHECK_THROWS_WITH_AS((testing::check_row_kernels<no_maximum, float>()),
                       doctest::Contains("the backend's softmax of fp32: of large and infinite numbers: element"),
                       failure);
  CHECK_THROWS_WITH_AS((testing::check_row_kernels<any_target, float>()),
                       doctest::Contains("row_sums: target's logit, 0 if another slice has it: element"), failure);
  CHECK_THROWS_WITH_AS((testing::check_row_kernels<fewer_rows, double>()),
                       doctest::Contains("the backend's rms_norm of fp64: dweight in the sums' type"), failure);
  CHECK_THROWS_WITH_AS((testing::check_row_kernels<wide_sum, bf16>()),
                       doctest::Contains("the backend's add_rms_norm of bf16: 1 / deviation: element"), failure);
}

}  // namespace
