// What a run says before its first step and after its last.
#pragma once

#include <weft/io/text_corpus.hpp>
#include <weft/tensor/arena.hpp>

#include "settings.hpp"

namespace train_llama {

/// Makes the run's folder, sets it in the plan, writes config.json there and prints what will run.
void begin_run(settings&, const weft::text_corpus&);
/// Prints losses, memory, where the files are and the sample; `ledger` is the first rank's.
void end_run(const settings&, const weft::text_corpus&, const weft::training_result&, const weft::memory_ledger& ledger,
             const std::string& sample);

}  // namespace train_llama
