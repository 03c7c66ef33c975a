// A sample of the matrix: llama in fp64.
#include "matrix/sample.hpp"

TEST_CASE("matrix: llama in fp64 equals one rank") { matrix::check_sample<weft::llama, weft::fp64, 0>(); }
