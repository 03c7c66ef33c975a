// A sample of the matrix: GPT-2 in fp32.
#include "matrix/sample.hpp"

TEST_CASE("matrix: gpt2 in fp32 equals one rank, and its plan") { matrix::check_sample<weft::gpt2, matrix::fp32, 3>(); }
