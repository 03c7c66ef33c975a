// The installed laws of attention and rope, on the CPU's, and on backends that get one thing wrong.
#include <doctest/doctest.h>

#include <weft/backend/cpu.hpp>
#include <weft/testing/backend/attention.hpp>

#include "laws_on_cpu.hpp"
#include "sample.hpp"

namespace {
using namespace weft;
using std::int64_t;

TEST_CASE("attention obeys its laws on every instruction set, with the same bits for one core and three") {
  laws_on_cpu([](int threads) {
    if constexpr (weft_test::sanitized)  // what is read and written hardly depends on the type
      return testing::check_attention_kernels<cpu_backend, float, bf16>(threads);
    else
      return testing::check_attention_kernels<cpu_backend, double, float, bf16, fp16>(threads);
  });
}

struct from_the_start : cpu_backend {  // query i sees keys up to i, also where there are more keys than queries
  template <class... Rest>
  static void attention(queue& cores, attention_shape s, const Rest&... rest) {
    s.causal = s.causal && s.q_len == s.kv_len;
    cpu_backend::attention(cores, s, rest...);
  }
};
struct sees_all : cpu_backend {  // what a window hides too
  template <class... Rest>
  static void attention(queue& cores, attention_shape s, const Rest&... rest) {
    s.window = 0;
    cpu_backend::attention(cores, s, rest...);
  }
};
struct crosses_borders : cpu_backend {  // of documents
  template <class... Rest>
  static void attention(queue& cores, attention_shape s, const Rest&... rest) {
    s.documents = nullptr;
    cpu_backend::attention(cores, s, rest...);
  }
};
struct crosses_them_backward : cpu_backend {
  template <class... Rest>
  static void attention_backward(queue& cores, attention_shape s, const Rest&... rest) {
    s.documents = nullptr;
    cpu_backend::attention_backward(cores, s, rest...);
  }
};
struct turns_from_zero : cpu_backend {  // positions that ignore where the slice begins
  template <class T, class A>
  static void rope(queue& cores, int64_t batch, int64_t seq, int64_t heads, int64_t head_dim, const T* x, const A* c,
                   const A* s, int64_t, bool inverse, T* y, bool add) {
    cpu_backend::rope(cores, batch, seq, heads, head_dim, x, c, s, int64_t{0}, inverse, y, add);
  }
};

TEST_CASE("a mask without its offset, its window or its documents, and positions without theirs, are told") {
  // That the laws tell is nothing that depends on a sanitizer; what is called is the CPU's, above.
  if constexpr (!weft_test::sanitized) {
    CHECK_THROWS_WITH_AS(
        (testing::check_attention_kernels<from_the_start, float>()),
        doctest::Contains("the backend's attention of fp32: largest scores, and logs of the sums: element"), failure);
    CHECK_THROWS_WITH_AS(
        (testing::check_attention_kernels<sees_all, float>()),
        doctest::Contains("the backend's attention of fp32: largest scores, and logs of the sums: element"), failure);
    CHECK_THROWS_WITH_AS(
        (testing::check_attention_kernels<crosses_borders, float>()),
        doctest::Contains("the backend's attention of fp32: largest scores, and logs of the sums: element"), failure);
    CHECK_THROWS_WITH_AS((testing::check_attention_kernels<crosses_them_backward, float>()),
                         doctest::Contains("the backend's attention of fp32: d"), failure);
    CHECK_THROWS_WITH_AS((testing::check_attention_kernels<turns_from_zero, float>()),
                         doctest::Contains("the backend's rope of fp32: turned: element"), failure);
  }
}

}  // namespace
