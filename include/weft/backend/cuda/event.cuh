// A point in a stream's work, for other streams and the host to wait for. Invariant: one that was never recorded has
// happened.
#pragma once

#include <memory>

#include <weft/backend/cuda/step_graph.cuh>

namespace weft::gpu {

class event {
 public:
  event() : event_(detail::make_event()) {}
  cudaEvent_t get() const { return event_.get(); }
  bool happened() const { return number_ > 0 ? of_->happened(number_) : detail::happened(event_.get()); }
  /// Returns when it has happened; throws where another rank's failure ended what was to come before it. What is kept
  /// back in a graph is launched first.
  void synchronize() const {
    if (number_ > 0)
      of_->synchronize(number_);
    else
      check(cudaEventSynchronize(event_.get()), "cudaEventSynchronize");
    if (of_) of_->require_sound();
  }
  /// Whether it lies in a graph that wasn't launched yet.
  bool kept_back() const { return number_ > 0 && of_->kept_back() == number_; }

 private:
  friend class stream;
  detail::event_pointer event_;
  std::shared_ptr<step_graph> of_;  // whose streams recorded it last
  std::uint64_t number_ = 0;        // in which of their graphs; 0: in none
};

}  // namespace weft::gpu
