// What a stream and those beside it are given between begin() and launch(), kept back as a CUDA graph and handed to the
// device as one. Invariant: what the host sees is what plain launches give: everything runs in the order in which it
// was given, and whoever waits for something that is kept back has it launched first.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <weft/backend/cuda/error.cuh>
#include <weft/core/queue.hpp>

namespace weft::gpu {
namespace detail {

struct destroy_event {
  void operator()(cudaEvent_t e) const { cudaEventDestroy(e); }
};
using event_pointer = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, destroy_event>;
inline event_pointer make_event() {
  cudaEvent_t raw = nullptr;
  check(cudaEventCreateWithFlags(&raw, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return event_pointer(raw);
}
inline bool happened(cudaEvent_t e) {
  const cudaError_t status = cudaEventQuery(e);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}

struct destroy_graph {
  void operator()(cudaGraph_t g) const { cudaGraphDestroy(g); }
  void operator()(cudaGraphExec_t g) const { cudaGraphExecDestroy(g); }
};
template <class Handle>
using graph_pointer = std::unique_ptr<std::remove_pointer_t<Handle>, destroy_graph>;

}  // namespace detail

class step_graph;

/// Who gives a rank's streams work by more threads than the rank's own, or later than it is called.
struct graph_guest {
  virtual ~graph_guest() = default;
  /// A graph of `of` begins. What was called before has been given when this returns, and from then on only the rank's
  /// own thread gives anything.
  virtual void begin(step_graph& of) = 0;
  /// It is about to be launched. What was called meanwhile has been given when this returns.
  virtual void end() = 0;
  /// It never is.
  virtual void drop() noexcept = 0;
  /// It couldn't be launched, for this reason; nor was what the guest gave to it.
  virtual void lose(const char* /*why*/) noexcept {}
  /// Throws where what it gave may have ended without being done, since another rank failed.
  virtual void require_sound() {}
};

/// The graphs of one rank's streams, numbered from 1; belongs to the rank's thread. All streams take part in a graph
/// from its beginning to its end, and all that they were given before precedes it, so no wait of theirs for the past
/// has to be in it. At most two graphs are under way: the next begins when the one before the last has run.
class step_graph {
 public:
  explicit step_graph(cudaStream_t origin) : origin_(origin) {}
  step_graph(const step_graph&) = delete;
  step_graph& operator=(const step_graph&) = delete;

  /// Another stream of the rank's. Where ranks share a device, and nothing is kept back, others may end it.
  void add(cudaStream_t side) {
    const std::lock_guard lock(changes_);
    sides_.push_back(side);
    if (keeps_back_) follow(origin_, side);
  }
  /// It leaves or ends; what it was given is launched. The executable goes: libraries keep what it has of theirs, and
  /// NCCL's communicators wait for its end before theirs.
  void remove(cudaStream_t side) {
    flush();
    ready_.reset();  // if it is under way, it ends when it has run
    const std::lock_guard lock(changes_);
    sides_.erase(std::remove(sides_.begin(), sides_.end(), side), sides_.end());
  }
  /// It is told of graphs as long as it lives.
  void invite(const std::shared_ptr<graph_guest>& guest) {
    for (const auto& g : guests_)
      if (g.lock() == guest) return;
    guests_.push_back(guest);
  }

  /// What the streams have come to is what they were given: throws where it may not be.
  void require_sound() const {
    each_guest([](graph_guest& g) { g.require_sound(); });
  }

  /// The graph that is kept back; 0: none is.
  std::uint64_t kept_back() const { return keeps_back_ ? number_ : 0; }
  const graph_counts& counts() const { return counts_; }

  void begin() {
    if (keeps_back_) return;
    if (number_ >= 2) synchronize(number_ - 1);
    each_guest([this](graph_guest& g) { g.begin(*this); });
    if (!between_) between_ = detail::make_event(), done_[0] = detail::make_event(), done_[1] = detail::make_event();
    for (cudaStream_t const side : sides_) follow(side, origin_);
    // Relaxed: memory may be taken meanwhile, of the device and of the host.
    const cudaError_t status = cudaStreamBeginCapture(origin_, cudaStreamCaptureModeRelaxed);
    if (status != cudaSuccess) each_guest([](graph_guest& g) { g.drop(); });
    check(status, "cudaStreamBeginCapture");
    keeps_back_ = true, ++number_;
    for (cudaStream_t const side : sides_) follow(origin_, side);
  }
  /// Hands what was kept back to the device, and waits for nothing. Throws weft::failure where CUDA refuses; then none
  /// of it runs.
  void launch() {
    if (!keeps_back_) return;
    try {
      each_guest([](graph_guest& g) { g.end(); });
      auto kept = std::exchange(held_, {});
      const detail::graph_pointer<cudaGraph_t> made = end_capture();
      prepare(made.get());
      check(cudaGraphLaunch(ready_.get(), origin_), "cudaGraphLaunch");
      for (held& h : kept) h.taken();
    } catch (const std::exception& e) {
      drop();
      each_guest([&e](graph_guest& g) { g.lose(e.what()); });
      throw;
    }
    ++counts_.launches;
    check(cudaEventRecord(done(number_), origin_), "cudaEventRecord");
    for (cudaStream_t const side : sides_) precede(number_, side);
  }
  /// The same, since somebody waits for it.
  void flush() {
    if (!keeps_back_) return;
    ++counts_.flushes;
    launch();
  }

  /// What was kept back never runs: an exception unwinds the stack, and what it worked on may be gone.
  void drop() {
    if (!keeps_back_) return;
    held_.clear();
    finish_capture();
    each_guest([](graph_guest& g) { g.drop(); });
  }

  /// Whether a graph has run.
  bool happened(std::uint64_t number) const {
    return kept_back() != number && (has_run(number) || detail::happened(done(number)));
  }
  /// Returns when it has.
  void synchronize(std::uint64_t number) {
    if (kept_back() == number) flush();
    if (!has_run(number)) check(cudaEventSynchronize(done(number)), "cudaEventSynchronize");
  }
  /// What `later` is given from now on runs after a graph that was launched.
  void precede(std::uint64_t number, cudaStream_t later) const {
    if (!has_run(number)) check(cudaStreamWaitEvent(later, done(number)), "cudaStreamWaitEvent");
  }

  /// A host function's argument, given to a graph: it ends itself when the function runs, or with the graph where that
  /// can't be launched.
  template <class F>
  void hold(F* argument) {
    if (keeps_back_) held_.push_back({argument});
  }

 private:
  class held {
   public:
    template <class F>
    held(F* at) : at_(at), end_([](void* f) { delete static_cast<F*>(f); }) {}
    held(held&& other) noexcept : at_(std::exchange(other.at_, nullptr)), end_(other.end_) {}
    held& operator=(held&&) = delete;
    ~held() {
      if (at_) end_(at_);
    }
    void taken() { at_ = nullptr; }

   private:
    void* at_;
    void (*end_)(void*);
  };

  // begin() of a graph has waited for the one before the last.
  bool has_run(std::uint64_t number) const { return number + 2 <= number_; }
  cudaEvent_t done(std::uint64_t number) const { return done_[number % 2].get(); }
  void follow(cudaStream_t first, cudaStream_t later) {
    check(cudaEventRecord(between_.get(), first), "cudaEventRecord");
    check(cudaStreamWaitEvent(later, between_.get()), "cudaStreamWaitEvent");
  }
  template <class F>
  void each_guest(const F& f) const {
    for (const auto& g : guests_)
      if (const auto here = g.lock()) f(*here);
  }
  std::pair<detail::graph_pointer<cudaGraph_t>, cudaError_t> finish_capture() {
    keeps_back_ = false;
    for (cudaStream_t const side : sides_) {  // what is wrong with one is what the capture's end says
      cudaEventRecord(between_.get(), side);
      cudaStreamWaitEvent(origin_, between_.get());
    }
    cudaGetLastError();
    cudaGraph_t raw = nullptr;
    const cudaError_t status = cudaStreamEndCapture(origin_, &raw);
    return {detail::graph_pointer<cudaGraph_t>(raw), status};
  }
  detail::graph_pointer<cudaGraph_t> end_capture() {
    auto [made, status] = finish_capture();
    check(status, "cudaStreamEndCapture");
    return std::move(made);
  }
  // The executable of the graph before takes this one's arguments, or is made anew where their shapes differ.
  void prepare(cudaGraph_t made) {
    if (ready_) {
      cudaGraphExecUpdateResultInfo why{};
      const cudaError_t status = cudaGraphExecUpdate(ready_.get(), made, &why);
      if (status == cudaSuccess) return;
      if (status != cudaErrorGraphExecUpdateFailure) check(status, "cudaGraphExecUpdate");
      cudaGetLastError();
      ready_.reset();
    }
    cudaGraphExec_t raw = nullptr;
    check(cudaGraphInstantiate(&raw, made, 0), "cudaGraphInstantiate");
    ready_.reset(raw);
    ++counts_.instantiations;
  }

  cudaStream_t origin_;
  std::mutex changes_;  // of the next
  std::vector<cudaStream_t> sides_;
  std::vector<std::weak_ptr<graph_guest>> guests_;
  bool keeps_back_ = false;
  std::uint64_t number_ = 0;  // of the graph that began last
  detail::event_pointer between_, done_[2];
  detail::graph_pointer<cudaGraphExec_t> ready_;
  std::vector<held> held_;
  graph_counts counts_;
};

}  // namespace weft::gpu
