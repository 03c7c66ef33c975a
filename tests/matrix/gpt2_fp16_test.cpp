// A sample of the matrix: gpt2 in fp16.
#include "matrix/sample.hpp"

TEST_CASE("matrix: gpt2 in fp16 equals one rank") { matrix::check_sample<weft::gpt2, matrix::fp16_from_above, 3>(); }
