// A sample of the matrix: GPT-2 in two precisions.
#include "matrix/sample.hpp"

TEST_CASE("matrix: gpt2 in fp16 equals one rank") { matrix::check_sample<weft::gpt2, matrix::fp16_from_above, 2>(); }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("matrix: gpt2 in fp32 equals one rank") { matrix::check_sample<weft::gpt2, matrix::fp32, 3>(); }
#endif
