// A sample of the matrix: Llama in two precisions.
#include "matrix/sample.hpp"

TEST_CASE("matrix: llama in fp64 equals one rank") { matrix::check_sample<weft::llama, matrix::fp64, 0>(); }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("matrix: llama in bf16 equals one rank") { matrix::check_sample<weft::llama, matrix::bf16_mixed, 1>(); }
#endif
