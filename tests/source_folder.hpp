// Where the files stand that a test reads: the folder tests/ of this checkout. Not from __FILE__, which doesn't say
// where the checkout lies (cmake/WeftCache.cmake).
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace weft_test {

/// tests/`name`: below WEFT_SOURCE_DIR, which ctest sets, or below the nearest folder upwards that has it.
inline std::string source_file(const std::string& name) {
  namespace fs = std::filesystem;
  if (const char* root = std::getenv("WEFT_SOURCE_DIR")) return (fs::path(root) / "tests" / name).string();
  for (fs::path at = fs::current_path();; at = at.parent_path()) {
    if (fs::exists(at / "tests" / name)) return (at / "tests" / name).string();
    if (at == at.parent_path()) break;
  }
  throw std::runtime_error("tests/" + name + " is not found from here: set WEFT_SOURCE_DIR to the checkout");
}

}  // namespace weft_test
