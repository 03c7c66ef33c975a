// Training all weights of GPT-2, and text from them.
#include <weft/nn/gpt2.hpp>

#include "ways.hpp"

std::vector<weft_plan::way> weft_plan::gpt2_ways() {
  return weft_plan::ways_with<weft::gpt2, weft::gpt2_config>::of_weights();
}
