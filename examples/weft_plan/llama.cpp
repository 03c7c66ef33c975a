// Training all weights of Llama, Mistral and Qwen, and text from them.
#include <weft/nn/llama.hpp>

#include "ways.hpp"

std::vector<weft_plan::way> weft_plan::llama_ways() {
  return weft_plan::ways_with<weft::llama, weft::llama_config>::of_weights();
}
