// A sample of the matrix: gpt2 in fp32.
#include "matrix/sample.hpp"

TEST_CASE("matrix: gpt2 in fp32 equals one rank") { matrix::check_sample<weft::gpt2, weft::fp32, 2>(); }
