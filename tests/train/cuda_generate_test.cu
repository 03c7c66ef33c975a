// Text from a Llama on a GPU, on one rank and on four that share it, beside the CPU's. Needs a GPU.
#include <weft/weft.cuh>

#include "generate_beside_cpu.hpp"

TEST_CASE("cuda: text token by token, on one rank and on four") {
  const weft::llama_config config{.layers = 2,
                                  .hidden = 128,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .ffn = 256,
                                  .vocab = 300,
                                  .max_seq = 64,
                                  .init_stddev = 0.3};
  weft_test::check_text_beside_cpu<weft::cuda_backend>({}, config, 40);
  weft_test::check_text_beside_cpu<weft::cuda_backend>({.dp = 2, .tp = 2}, config, 40);
}
