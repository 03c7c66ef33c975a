// What a run says before its first step and after its last, how it is stopped, and what it leaves when it fails.
#pragma once

#include <functional>

#include <weft/io/text_corpus.hpp>
#include <weft/tensor/arena.hpp>

#include "settings.hpp"

namespace train_llama {

/// The error in one sentence; std::bad_alloc says nothing by itself.
std::string sentence_of(const std::exception&);

/// Makes the run's folder, sets it in the plan, and returns what f returns. An error's sentence is left in the folder's
/// error.txt; on another process than the first, which makes no folder, on stderr.
int in_run_folder(settings&, const std::function<int()>& f);
/// Writes config.json, prints what will run, and has SIGINT and SIGTERM end it after the running step; a second one
/// ends the program at once.
void begin_run(settings&, const weft::text_corpus&);
/// Says that training is over, so that a signal ends the program at once again.
void end_training();
/// Prints losses, memory, where the files are and the sample; `ledger` is the first rank's. Returns the program's exit
/// code: 1 where the disk didn't take one of the files, 130 where the run was stopped.
int end_run(const settings&, const weft::text_corpus&, const weft::training_result&, const weft::memory_ledger& ledger,
            const std::string& sample);

}  // namespace train_llama
