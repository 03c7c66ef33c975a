// Training adapters of Llama, Mistral and Qwen on more ranks than divide their key and value heads, beside weights in 8
// bits.
#include <weft/nn/llama.hpp>

#include "ways.hpp"

std::vector<weft_plan::way> weft_plan::llama_shared_kv_int8_ways() {
  return weft_plan::ways_with<weft::llama, weft::llama_config, weft_plan::shared_heads>::of_int8();
}
