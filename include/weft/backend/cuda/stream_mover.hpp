// What ranks on one device send each other: copies and folds on a stream of the group's own, tied to the ranks' streams
// by events. Invariant: that stream waits for every member's array, and every member's stream for it; the host for
// nothing.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include <weft/backend/cuda/kernels/fold.hpp>
#include <weft/backend/cuda/queue.hpp>

namespace weft::gpu {

/// What a queue offers besides, so that ranks can share its device. An event that was never recorded has happened.
template <class Q>
concept queue_with_events = kernel_queue<Q> && requires(Q& q, typename Q::event& e) {
  { q.beside() } -> std::same_as<std::unique_ptr<Q>>;  // another one of the same device
  q.record(e);                                         // e happens once all that q was given so far has run
  q.wait(e);                                           // what q is given from now on runs after the last recorded e
  { e.happened() } -> std::convertible_to<bool>;
  e.synchronize();  // returns when it has
};

template <class Queue>
class stream_mover final : public device_mover {
 public:
  /// For ranks whose queues lie on the device of `queue`.
  stream_mover(Queue& queue, int members) : members_(static_cast<std::size_t>(members)), stream_(queue.beside()) {
    static_assert(queue_with_events<Queue>);
    require(members <= most_ranks, "a group of ", members, " ranks shares one GPU, which takes ", most_ranks,
            ": have fewer ranks along its axes, or a GPU for each, by the communicator nccl");
    calls_.resize(places * members_);
    called_ = std::vector<event>(places * members_);
    moved_ = std::vector<event>(places);
  }

  void called(std::size_t place, int m, const comm_call& call) override {
    const std::size_t at = place * members_ + static_cast<std::size_t>(m);
    calls_[at] = call;
    call.queue.as<Queue>().record(called_[at]);
  }
  void move(std::size_t place) override {
    for (std::size_t m = 0; m < members_; ++m) stream_->wait(called_[place * members_ + m]);
    try {
      give(calls_.data() + place * members_);
      stream_->record(moved_[place]);
    } catch (...) {
      settle();
      throw;
    }
  }
  void precede(std::size_t place, const queue_ref& queue) override { queue.as<Queue>().wait(moved_[place]); }
  bool done(std::size_t place) override { return moved_[place].happened(); }
  void finish(std::size_t place) override { moved_[place].synchronize(); }

 private:
  using event = typename Queue::event;

  /// Afterwards nothing that was given touches the members' arrays, as far as the device still works.
  void settle() noexcept {
    try {
      stream_->synchronize();
    } catch (...) {
    }
  }
  void copy(const void* from, std::int64_t first, void* to, std::int64_t at, std::int64_t bytes) {
    const std::byte* const source = static_cast<const std::byte*>(from) + first;
    std::byte* const target = static_cast<std::byte*>(to) + at;
    if (source != target && bytes > 0) stream_->copy(source, target, static_cast<std::size_t>(bytes));
  }
  void give(const comm_call* calls) {
    const int ranks = static_cast<int>(members_);
    const std::int64_t bytes = calls[0].bytes();
    const auto pairs = [&](auto copied) {
      for (int from = 0; from < ranks; ++from)
        for (int to = 0; to < ranks; ++to) copied(from, to);
    };
    switch (calls[0].operation) {
      case comm_operation::all_reduce:
      case comm_operation::reduce_scatter:
        return visit_dtype(calls[0].type, [&]<class T>() { fold<T>(calls); });
      case comm_operation::all_gather:
      case comm_operation::split:
        return pairs([&](int from, int to) { copy(calls[from].in, 0, calls[to].out, from * bytes, bytes); });
      case comm_operation::all_to_all:
        return pairs([&](int from, int to) { copy(calls[from].in, to * bytes, calls[to].out, from * bytes, bytes); });
      case comm_operation::all_to_allv:
        return pairs([&](int from, int to) {
          copy(calls[from].in, before(calls[from].send_bytes, to), calls[to].out, before(calls[to].recv_bytes, from),
               calls[from].send_bytes[to]);
        });
      case comm_operation::broadcast:
        for (int to = 0; to < ranks; ++to) copy(calls[calls[0].peer].in, 0, calls[to].out, 0, bytes);
        return;
      case comm_operation::send:
      case comm_operation::recv:
        return copy(calls[0].in, 0, calls[1].out, 0, bytes);
      case comm_operation::barrier:
        return;
    }
  }
  static std::int64_t before(const std::int64_t* bytes, int rank) {
    std::int64_t sum = 0;
    for (int r = 0; r < rank; ++r) sum += bytes[r];
    return sum;
  }
  template <class T>
  void fold(const comm_call* calls) {
    const int ranks = static_cast<int>(members_);
    const std::int64_t n = calls[0].count;
    const bool scattered = calls[0].is(comm_operation::reduce_scatter);
    fold_kernel<T> kernel{n, ranks, ranks, calls[0].how, scattered, !scattered || n % pack_size<T> == 0, {}, {}};
    for (int r = 0; r < ranks; ++r) {
      kernel.in[r] = static_cast<const T*>(calls[r].in), kernel.out[r] = static_cast<T*>(calls[r].out);
      kernel.packed = kernel.packed && aligned_for_packs(kernel.in[r], kernel.out[r]);
    }
    if (n > 0) over_elements<T>(*stream_, n, kernel);
  }

  std::size_t members_;
  std::vector<comm_call> calls_;       // by place and member
  std::vector<event> called_, moved_;  // by place and member; by place
  std::unique_ptr<Queue> stream_;      // ends first
};

}  // namespace weft::gpu
