// A sample of the matrix: Llama in bf16.
#include "matrix/sample.hpp"

TEST_CASE("matrix: llama in bf16 equals one rank, and its plan") {
  matrix::check_sample<weft::llama, matrix::bf16_mixed, 1>();
}
