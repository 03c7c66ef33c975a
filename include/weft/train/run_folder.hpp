// A folder for a run's files. Invariant: it is new; what an earlier run wrote is never touched.
#pragma once

#include <filesystem>
#include <string>

#include <weft/core/error.hpp>

namespace weft {

/// Makes the folder `wanted`, or `wanted-2`, `wanted-3`, ... when that exists. Returns its path. Throws when it can't.
WEFT_LINKED std::string new_run_folder(const std::string& wanted) {
  namespace fs = std::filesystem;
  require(!wanted.empty(), "a run folder needs a name");
  std::error_code why;
  require(!fs::exists(wanted, why) || fs::is_directory(wanted, why), "the run folder ", wanted,
          " can't be made: there is a file of this name; give another place");
  why.clear();
  const fs::path first(wanted);
  if (first.has_parent_path()) fs::create_directories(first.parent_path(), why);
  for (int number = 1; !why && number < 100000; ++number) {
    const std::string path = number == 1 ? wanted : wanted + '-' + std::to_string(number);
    if (fs::create_directory(path, why)) return path;
    if (fs::exists(path)) why.clear();
  }
  fail("the run folder ", wanted, " can't be made: ", why ? why.message() : "all its numbers are taken",
       "; give another place");
}

}  // namespace weft
