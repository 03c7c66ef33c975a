// Training adapters of GPT-2.
#include <weft/nn/gpt2.hpp>

#include "ways.hpp"

std::vector<weft_plan::way> weft_plan::gpt2_lora_ways() {
  return weft_plan::ways_with<weft::gpt2, weft::gpt2_config>::of_lora();
}
