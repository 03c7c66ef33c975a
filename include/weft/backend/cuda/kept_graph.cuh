// The graph that a rank's queue keeps back, for those who give the rank's streams what other ranks wait for.
// Invariant: while one is kept back, all that was called before it has been given, and all that was called meanwhile
// is in it when it is launched.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include <weft/backend/cuda/step_graph.cuh>

namespace weft::gpu {

class kept_graph final : public graph_guest {
 public:
  /// settle() returns when all that was called is given; lost(why) is told that a graph couldn't be launched; sound()
  /// throws where a rank failed.
  kept_graph(std::function<void()> settle, std::function<void(const char*)> lost, std::function<void()> sound)
      : settle_(std::move(settle)), lost_(std::move(lost)), sound_(std::move(sound)) {}

  /// Whether there is one: then only the rank's thread gives anything.
  bool any() const { return of_ != nullptr; }
  /// The rank's thread is about to wait for other ranks, which may wait for what is kept back.
  void launch() {
    if (step_graph* const kept = of_) kept->flush();
  }

  void begin(step_graph& of) override {
    launch();  // another queue's
    settle_();
    of_ = &of;
  }
  void end() override {
    settle_();
    of_ = nullptr;
  }
  void drop() noexcept override { of_ = nullptr; }
  void lose(const char* why) noexcept override { lost_(why); }
  void require_sound() override { sound_(); }

 private:
  const std::function<void()> settle_;
  const std::function<void(const char*)> lost_;
  const std::function<void()> sound_;
  std::atomic<step_graph*> of_ = nullptr;
};

}  // namespace weft::gpu
