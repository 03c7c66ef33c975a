// The communicator of the matrix: threads, whose calls are compared by messages too where launch_options.check is on
// and the whole matrix runs. Invariant: a strategy is the same with and without, so each cell is compiled once.
#pragma once

#include <weft/comm/checked.hpp>
#include <weft/comm/threads.hpp>

namespace matrix {

class compared_threads : public weft::comm_operations<compared_threads> {
 public:
  static inline bool by_messages = false;

  explicit compared_threads(const weft::threads& world) : world_(world) {}
  int rank() const { return world_.rank(); }
  int size() const { return world_.size(); }
  weft::request post(const weft::comm_call& call) { return world_.post(call); }
  compared_threads split(int color, int key, const char* name) {
    return compared_threads(world_.split(color, key, name));
  }
  template <class F>
  static void launch(int ranks, F&& f) {
    weft::threads::launch(ranks, [&](weft::threads& world) {
      compared_threads own(world);
      f(own);
    });
  }
  template <class F>
  static void launch_checked(int ranks, F&& f) {
    if (by_messages)
      weft::checked<weft::threads>::launch(ranks, f);
    else
      launch(ranks, f);
  }

 private:
  weft::threads world_;
};

}  // namespace matrix
