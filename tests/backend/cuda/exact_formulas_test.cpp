// Formulas whose numbers need few bits on the kernels of CUDA, run on the host behind queues that run as late as they
// may: the CPU's bits.
#include "../../op/formulas_of_all_kinds.hpp"
#include "lazy_queue.hpp"

using namespace weft_test;

TEST_CASE("the kernels of CUDA: formulas in bf16, across rows, on one rank and on two with padding") {
  const auto want = exact_formulas<cpu_backend>(1);
  CHECK(want.size() > 200);
  for (const int ranks : {1, 2}) {
    CHECK((exact_formulas<cpu_backend>(ranks) == want));
    CHECK((exact_formulas<lazy_cuda_backend>(ranks) == want));
  }
}
