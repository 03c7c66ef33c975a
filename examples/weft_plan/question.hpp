// What weft-plan is asked. Invariant: once resolved, every number is the one that is planned with, but for the degrees
// that are 0, of which all that fit are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model.hpp"

namespace weft_plan {

struct question {
  // Words of these lists are names of the strategies' parts (strategies.hpp). Empty: all.
  std::vector<std::string> train, text, sharding, checkpointing;
  std::vector<std::string> loss{"whole"};
  int ranks = 0, dp = 0, tp = 0, pp = 0;  // 0: what the others leave open
  std::int64_t batch = 0, seq = 0;        // of a step
  int micro_batches = 0;                  // 0: so many that a rank has one sequence at a time
  std::int64_t prompt = 0, tokens = 0;    // of a text
  int threads = 1;                        // of a rank, for the scratch of the CPU's kernels
  std::size_t memory = 0;                 // that a rank may take; 0: no limit
  int rows = 4;                           // of a table; 0: all
};

/// "24GiB", "80GB", "512MiB" as bytes. Throws weft::failure that shows how it is written.
std::size_t read_bytes(const std::string& text);
/// "zero2,zero3", each word one of `valid`. Throws weft::failure that names `option`.
std::vector<std::string> read_list(const char* option, const std::string& text, const std::vector<std::string>& valid);

/// Fills in what was left open. Throws weft::failure where numbers don't fit together, naming options.
void resolve(question&, const asked_model&);

}  // namespace weft_plan
