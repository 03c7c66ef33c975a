// What a run says before its first step and after its last, how it is stopped, and what it leaves when it fails.
#pragma once

#include <functional>

#include <weft/io/text_corpus.hpp>
#include <weft/memory/ledger.hpp>

#include "settings.hpp"

namespace train_llama {

/// The error in one sentence; std::bad_alloc says nothing by itself.
std::string sentence_of(const std::exception&);

/// Makes the run's folder, sets it in the plan, and returns what f returns. An error's sentence is left in the folder's
/// error.txt; on another process than the first, which makes no folder, on stderr.
int in_run_folder(settings&, const std::function<int()>& f);
/// Writes config.json, prints what will run, and has SIGINT, SIGTERM and SIGHUP end it after the running step, or after
/// the sample, with everything written; a second one ends the program at once.
void begin_run(settings&, const weft::text_corpus&);
/// Prints losses, memory, where the files are and the sample; `ledger` is the first rank's. Returns the program's exit
/// code: 1 where the disk didn't take one of the files, 130 where the run was stopped.
int end_run(const settings&, const weft::text_corpus&, const weft::training_result&, const weft::memory_ledger& ledger,
            const std::string& sample);

/// A closed stdout keeps its number, so that no file of the run gets it.
void hold_output();
/// The program's exit code: 1 where all went well and stdout didn't take what was printed, which stderr is told.
int said(int code);

}  // namespace train_llama
