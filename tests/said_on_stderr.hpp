// What the program says on stderr while a function runs.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include <weft/io/file.hpp>

#include "temporary.hpp"

namespace weft_test {

template <class F>
std::string said_on_stderr(F&& f) {
  const temporary_folder folder;
  const std::string path = folder / "stderr";
  struct elsewhere {
    int kept = ::dup(2);
    explicit elsewhere(const std::string& file) {
      std::fflush(stderr);
      const int to = ::open(file.c_str(), O_CREAT | O_WRONLY, 0600);
      ::dup2(to, 2), ::close(to);
    }
    ~elsewhere() { ::dup2(kept, 2), ::close(kept); }
  };
  {
    const elsewhere now(path);
    f();
  }
  return weft::read_file(path);
}

}  // namespace weft_test
