// The installed law of products in 8 bits, on a backend that has one, and on such that get one thing wrong.
#include <doctest/doctest.h>

#include <weft/backend/cpu.hpp>
#include <weft/testing/backend/float8.hpp>

namespace {
using namespace weft;

enum class wrong { nothing, form, scale, sum, touched, rounding };
// By plain loops; what isn't of multiples of 16 it leaves.
template <wrong Wrong>
struct float8_with : cpu_backend {
  template <class T, class Out>
  static bool float8_matmul(queue&, const matmul_shape& size, const T* a, const strides& sa, float8_form of_a,
                            const T* b, const strides& sb, float8_form of_b, Out* c, const strides& sc, bool add) {
    const bool taken = size.k % 16 == 0 && size.n % 16 == 0;
    if (!taken && Wrong == wrong::touched && size.m * size.n > 0) c[0] = Out(3.0f);
    if (!taken) return false;
    if (Wrong == wrong::form) of_a = of_b = float8_form::e4m3;
    if (Wrong == wrong::sum) add = false;
    const auto scale_of = [](float8_form form, std::int64_t m, std::int64_t n, const T* x, const strides& s) {
      float largest = 0;
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j)
          largest = std::fmax(largest, std::fabs(static_cast<float>(x[i * s.row + j * s.column])));
      return Wrong == wrong::scale ? 1 : detail::float8_scale(form, largest);
    };
    const float up_a = scale_of(of_a, size.m, size.k, a, sa), up_b = scale_of(of_b, size.k, size.n, b, sb);
    const auto taken_as = [](float8_form form, float scale, T x) {
      return Wrong == wrong::rounding ? static_cast<float>(x)
                                      : detail::rounded_to_float8(form, scale, static_cast<float>(x));
    };
    for (std::int64_t i = 0; i < size.m; ++i)
      for (std::int64_t j = 0; j < size.n; ++j) {
        float sum = add ? static_cast<float>(c[i * sc.row + j]) : 0;
        for (std::int64_t k = 0; k < size.k; ++k)
          sum +=
              taken_as(of_a, up_a, a[i * sa.row + k * sa.column]) * taken_as(of_b, up_b, b[k * sb.row + j * sb.column]);
        c[i * sc.row + j] = Out(sum);
      }
    return true;
  }
};
template <wrong Wrong>
void told(const char* sentence) {
  CHECK_THROWS_WITH_AS((testing::check_float8_kernels<float8_with<Wrong>, bf16>()), doctest::Contains(sentence),
                       failure);
}

TEST_CASE("a product in 8 bits obeys its law, and a backend without one isn't asked") {
  CHECK(testing::check_float8_kernels<float8_with<wrong::nothing>, float, bf16, fp16>().tried.size() == 5);
  CHECK(testing::check_float8_kernels<cpu_backend, float, bf16>().tried.empty());
  CHECK(testing::check_float8_kernels<cpu_backend, float, bf16>().lacking.empty());
}

TEST_CASE("another form, scale or rounding, a sum that is lost, and an output touched though left, are told") {
  told<wrong::form>("in 8 bits");
  told<wrong::scale>("in 8 bits");
  told<wrong::rounding>("in 8 bits");
  told<wrong::sum>("in 8 bits");
  told<wrong::touched>("it wrote, but the call gave false");
}

}  // namespace
