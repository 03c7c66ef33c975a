// A communicator over any other: every operation begins and ends at another time than it would.
#pragma once

#include <chrono>
#include <thread>

#include <weft/comm/concept.hpp>

namespace weft_test {

template <weft::communicator_policy C>
class unsteady : public weft::comm_operations<unsteady<C>> {
 public:
  unsteady(C under, std::uint32_t seed) : under_(under), state_(seed) {}
  int rank() const { return under_.rank(); }
  int size() const { return under_.size(); }
  weft::request post(const weft::comm_call& call) {
    wait();
    return under_.post(call);
  }
  unsteady split(int color, int key, const char* name) { return {under_.split(color, key, name), state_ + 1}; }
  template <class F>
  static void launch(int ranks, F&& f) {
    C::launch(ranks, [&](C& world) {
      unsteady own(world, static_cast<std::uint32_t>(world.rank()));
      f(own);
    });
  }

 private:
  void wait() {
    state_ = state_ * 1664525u + 1013904223u;
    std::this_thread::sleep_for(std::chrono::microseconds(state_ >> 25));
  }
  C under_;
  std::uint32_t state_;
};

}  // namespace weft_test
