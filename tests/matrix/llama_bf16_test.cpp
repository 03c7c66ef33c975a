// A sample of the matrix: llama in bf16.
#include "matrix/sample.hpp"

TEST_CASE("matrix: llama in bf16 equals one rank") { matrix::check_sample<weft::llama, weft::bf16_mixed, 1>(); }
