// Formulas on a GPU beside the CPU's. Needs a GPU.
#include <weft/testing/backend/training.hpp>
#include <weft/weft.cuh>

#include "../../op/formulas_of_all_kinds.hpp"

using namespace weft_test;

TEST_CASE("cuda: formulas of elements and of rows, and what is made of them") {
  check_formulas_near_cpu(numbers_of_formulas<cuda_backend>());
}

TEST_CASE("cuda: formulas in bf16, across rows, on one rank and on two with padding") {
  for (const int ranks : {1, 2}) CHECK((exact_formulas<cuda_backend>(ranks) == exact_formulas<cpu_backend>(1)));
}

TEST_CASE("cuda: the laws of what a formula brings") {
  weft::testing::detail::kernels::bench<cuda_backend> b(1);
  weft::testing::detail::kernels::loops(b);
  CHECK(b.report.lacking.empty());
}
