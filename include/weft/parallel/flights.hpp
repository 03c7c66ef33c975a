// What a pipeline keeps of its micro-batches while they are on their way: a flight for each that went forward through a
// chunk and isn't back, and the gradients that the stage before hasn't had yet. Invariant: what is sent lives until its
// neighbour has it, and goes when an action comes that the schedule names, so that memory doesn't depend on timing.
#pragma once

#include <list>
#include <vector>

#include <weft/autograd/backward.hpp>

namespace weft::detail {

/// A micro-batch in a chunk, between its forward and the end of its backward.
template <class Stream, class Loss>
struct flight {
  int micro_batch = -1, chunk = 0;
  tape recorded;
  Stream in, out;  // where the virtual stages before and after end them
  Loss loss;
  request sent;  // out, where the next stage is on another rank

  void forget() {
    if (micro_batch < 0) return;
    recorded.clear();
    in = out = Stream();
    loss = {};
    micro_batch = -1;
  }
};

template <class Stream, class Loss>
class flights {
 public:
  using flight_type = flight<Stream, Loss>;

  /// Keeps so many gradients sent back of each chunk. Between steps.
  void set_room(int chunks, int gradients) {
    room_ = gradients;
    returned_ = std::vector<returned>(static_cast<std::size_t>(chunks * gradients));
  }

  /// Throws where the micro-batch didn't go forward through that chunk, or is back.
  flight_type& find(int micro_batch, int chunk) {
    for (flight_type& f : all_)
      if (f.micro_batch == micro_batch && f.chunk == chunk) return f;
    fail("micro-batch ", micro_batch, " is not in flight in chunk ", chunk, " of this rank");
  }
  flight_type& begin(int micro_batch, int chunk) {
    for (flight_type& f : all_)
      if (f.micro_batch < 0) return take(f, micro_batch, chunk);
    return take(all_.emplace_back(), micro_batch, chunk);
  }
  /// Before f's backward: waits until the stage before has the gradient whose place f's takes.
  void make_room(const flight_type& f, const queue_ref& order) { place_of(f).land(order); }
  /// Keeps a gradient until the stage before has it: post(gradient) sends it.
  template <class Post>
  void give_back(const flight_type& f, local_array gradient, Post&& post) {
    returned& g = place_of(f);
    g.gradient = std::move(gradient);
    g.sent = post(g.gradient);
  }
  /// At a step's end: waits until all has been received.
  void land(const queue_ref& order) {
    for (returned& g : returned_) g.land(order);
  }
  /// Of a step that ended with an error.
  void forget() {
    for (flight_type& f : all_) f.forget();
  }

 private:
  struct returned {
    local_array gradient;
    request sent;
    void land(const queue_ref& order) {
      sent.wait(order);
      gradient = {};
    }
  };
  returned& place_of(const flight_type& f) {
    return returned_[static_cast<std::size_t>(f.chunk * room_ + f.micro_batch % room_)];
  }
  static flight_type& take(flight_type& f, int micro_batch, int chunk) {
    f.micro_batch = micro_batch, f.chunk = chunk;
    return f;
  }

  std::list<flight_type> all_;
  std::vector<returned> returned_;
  int room_ = 1;
};

}  // namespace weft::detail
