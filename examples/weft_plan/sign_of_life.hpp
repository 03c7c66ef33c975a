// A line on stderr while a search lasts, where that is a terminal. Invariant: nothing of it is left when it ends, and
// none is written within the first second.
#pragma once

#include <chrono>
#include <cstdio>

#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

namespace weft_plan {

class sign_of_life {
 public:
  sign_of_life() = default;
  sign_of_life(const sign_of_life&) = delete;
  sign_of_life& operator=(const sign_of_life&) = delete;
  ~sign_of_life() {
    if (written_) std::fprintf(stderr, "\r%50s\r", "");
  }
  void tell(std::size_t done, std::size_t all) {
    using namespace std::chrono;
    if (!terminal_ || steady_clock::now() - begun_ < seconds(1)) return;
    written_ = true;
    std::fprintf(stderr, "\rweft-plan: %zu of %zu planned", done, all);
    std::fflush(stderr);
  }

 private:
#if __has_include(<unistd.h>)
  bool terminal_ = isatty(STDERR_FILENO) == 1;
#else
  bool terminal_ = false;
#endif
  bool written_ = false;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace weft_plan
