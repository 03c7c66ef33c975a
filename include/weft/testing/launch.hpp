// The laws of a communicator's launch: f runs once on every rank, and a rank's error comes out.
// Invariant: who ran is counted apart from the communicator, in this process; ranks may be in several.
#pragma once

#include <algorithm>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include <weft/core/error.hpp>

namespace weft::testing::detail::collectives {

/// Who ran in one launch, kept apart from the communicator: each rank once, and no error was lost.
class roster {
 public:
  /// ranks: that were asked for; 0 where that isn't known.
  roster(const char* law, int ranks) : law_(law), ranks_(ranks) {}

  void enter(int rank, int size) {
    const std::lock_guard guard(lock_);
    if (ranks_ == 0) ranks_ = size;
    const bool fits = size == ranks_ && rank >= 0 && rank < size;
    if (!fits && wrong_.empty()) wrong_ = weft::detail::text("ran rank ", rank, " of ", size);
    if (std::find(seen_.begin(), seen_.end(), rank) != seen_.end() && wrong_.empty())
      wrong_ = weft::detail::text("ran f twice on rank ", rank);
    seen_.push_back(rank);
    check();
  }
  void keep(std::exception_ptr error) {
    const std::lock_guard guard(lock_);
    if (!error_) error_ = error;
  }
  /// After launch has returned.
  void leave() {
    if (seen_.empty()) wrong_ = "ran f on no rank";
    check();
    if (error_) std::rethrow_exception(error_);  // launch has swallowed it
  }

 private:
  void check() const {
    require(wrong_.empty(), law_, ": launch(", ranks_, ", f) ", wrong_, "; it has to run f(world) once on each of ",
            ranks_, " ranks");
  }
  const char* law_;
  int ranks_;
  std::mutex lock_;
  std::vector<int> seen_;
  std::string wrong_;
  std::exception_ptr error_;
};

/// An error on the first rank, or the last, ends the others, which wait for it, and comes out of launch.
template <class Launch>
void errors_come_out(const Launch& launch) {
  for (const bool last : {false, true}) {
    const char* const text = "an error that the laws throw on one rank";
    std::string came = "no error";
    try {
      launch([&](auto& c) {
        if (c.rank() == (last ? c.size() - 1 : 0)) fail(text);
        c.barrier().wait();
      });
    } catch (const std::exception& e) {
      came = e.what();
    } catch (...) {
      came = "another error";
    }
    require(came.find(text) != came.npos, "launch: rank ", last ? "size - 1" : "0", " threw \"", text, "\", and ", came,
            " came out: a rank's error ends the others, and is thrown to the caller");
  }
}

}  // namespace weft::testing::detail::collectives
