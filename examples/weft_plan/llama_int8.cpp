// Training adapters of Llama, Mistral and Qwen, beside weights in 8 bits.
#include <weft/nn/llama.hpp>

#include "ways.hpp"

std::vector<weft_plan::way> weft_plan::llama_int8_ways() {
  return weft_plan::ways_with<weft::llama, weft::llama_config>::of_int8();
}
