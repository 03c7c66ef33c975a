// What can be planned of Llama, Mistral and Qwen.
#include <weft/nn/llama.hpp>

#include "ways.hpp"

std::vector<weft_plan::way> weft_plan::llama_ways() { return ways_with<weft::llama, weft::llama_config>::made(); }
