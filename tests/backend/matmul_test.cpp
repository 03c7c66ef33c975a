// Matrix products against a triple loop in double: random shapes, strides, batches, every instruction set here.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <weft/backend/cpu/matmul.hpp>

#include "matmul_reference.hpp"

using namespace weft;
using namespace weft::cpu;
using weft::test::matmul_case;

namespace {

template <class T, class Out>
void check_everywhere(int rounds, std::uint32_t seed) {
  const isa before = current_isa();
  for (isa level : {isa::portable, isa::avx2, isa::avx512, isa::avx512_bf16, isa::amx}) {
    if (!has_isa(level)) continue;
    use_isa(level);
    INFO("instruction set ", name_of(level));
    team alone(1), pair(2);
    test::random random{seed};
    for (int round = 0; round < rounds; ++round) {
      const matmul_case<T, Out> shape = matmul_case<T, Out>::draw(random);
      INFO(shape.describe());
      shape.check([&](auto... arguments) { matmul(round % 2 ? pair : alone, arguments...); });
    }
  }
  use_isa(before);
}

}  // namespace

TEST_CASE("matmul of float") { check_everywhere<float, float>(120, 1); }
TEST_CASE("matmul of double") { check_everywhere<double, double>(60, 2); }
TEST_CASE("matmul of bf16 into bf16") { check_everywhere<bf16, bf16>(120, 3); }
TEST_CASE("matmul of bf16 into float") { check_everywhere<bf16, float>(120, 4); }
TEST_CASE("matmul of fp16 into fp16") { check_everywhere<fp16, fp16>(60, 5); }
TEST_CASE("matmul of fp16 into float") { check_everywhere<fp16, float>(60, 6); }
