// What a fuzz target has: one input, what it begins from, how an input is changed. Each parser's target is one .cpp of
// this folder, linked to driver.cpp, or to libFuzzer with mutator.cpp. Invariant: an input is refused by a
// weft::failure that names the file, or what was read holds what the target checks; anything else aborts.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <weft/core/error.hpp>

#include "random.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace weft_fuzz {

/// Sound inputs: each is read.
std::vector<std::string> seeds();
/// The input changed in one to four places, by its format or byte by byte.
std::string mutated(std::string input, random_numbers& random);

/// How many inputs were refused, and how many read.
struct counts {
  std::int64_t refused = 0, read = 0;
};
inline counts seen;

inline void held(bool so, std::string_view what) {
  if (so) return;
  std::fprintf(stderr, "FAULT: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

/// Whether `read` is refused. What is thrown has to name the file or folder `path`.
template <class F>
bool refused(std::string_view path, F&& read) {
  try {
    read();
    return false;
  } catch (const weft::failure& e) {
    const std::string_view said = e.what();
    held(said.find(path) != said.npos, "an error that doesn't name the file: " + std::string(said.substr(0, 500)));
    return true;
  }
}

/// Counts an input, of which `was_refused` says what became.
inline int counted(bool was_refused) {
  ++(was_refused ? seen.refused : seen.read);
  return 0;
}

}  // namespace weft_fuzz
