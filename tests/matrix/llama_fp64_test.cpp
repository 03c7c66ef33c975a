// A sample of the matrix: Llama in fp64.
#include "matrix/sample.hpp"

TEST_CASE("matrix: llama in fp64 equals one rank, and its plan") {
  matrix::check_sample<weft::llama, matrix::fp64, 0>();
}
