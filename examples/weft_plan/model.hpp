// The model that is asked about: what a config.json of transformers says. Invariant: a model that is here is one that
// the library computes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft_plan {

struct configuration;  // configuration.hpp: most files need none of what it includes

struct asked_model {
  std::string file, family;  // config.json's path, and its model_type
  std::int64_t parameters = 0, layers = 0, hidden = 0;
  std::int64_t positions = 0;          // the most tokens of a sequence
  std::vector<std::int64_t> kv_heads;  // of each layer, key and value heads; empty: as many as query heads
  std::shared_ptr<const configuration> config;
};

/// Of a folder that has a config.json, or of such a file. Throws weft::failure, or weft::file_error, naming the file
/// and the field that is wrong.
asked_model read_model(const std::string& path);

}  // namespace weft_plan
