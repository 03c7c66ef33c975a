// Training adapters of Llama, Mistral and Qwen.
#include <weft/nn/llama.hpp>

#include "ways.hpp"

std::vector<weft_plan::way> weft_plan::llama_lora_ways() {
  return weft_plan::ways_with<weft::llama, weft::llama_config>::of_lora();
}
