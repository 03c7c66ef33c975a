// What can be planned of GPT-2.
#include <weft/nn/gpt2.hpp>

#include "ways.hpp"

std::vector<weft_plan::way> weft_plan::gpt2_ways() { return ways_with<weft::gpt2, weft::gpt2_config>::made(); }
