// A model's configuration, of either family. Invariant: it is what read_model took from the file.
#pragma once

#include <variant>

#include <weft/nn/gpt2.hpp>
#include <weft/nn/llama.hpp>

#include "model.hpp"

namespace weft_plan {

struct configuration {
  std::variant<weft::llama_config, weft::gpt2_config> is;
};

}  // namespace weft_plan
