// The optimizer's state where it lies in the host's memory and kernels run on a device: an update is given it in
// chunks, each copied there and back beside the update of the one before (ZeRO-Offload, Ren et al. 2021). Invariant:
// a chunk's room is written to only once what was in it is back; behind end(), whatever the rank's queue is given finds
// the whole state on the host. The host waits for nothing, and nothing is allocated in a step.
#pragma once

#include <array>

#include <weft/parallel/stored_bucket.hpp>

namespace weft::detail {

/// What kernels are given of the optimizer's state of a bucket's flat elements, from `begin` on; empty: none of it.
struct bucket_state {
  std::int64_t begin;
  local_array master, first, second;
};
/// Which of that an update reads and writes; the others are then empty, or as they were.
enum class state_parts : std::uint8_t { all, moments, weights };

/// Of a backend whose kernels are given the state where it is.
template <class Backend>
class staged_state {
 public:
  explicit staged_state(context&) {}
  void fit(const stored_bucket&) {}
  void allocate() {}
  /// Before a step's first chunk.
  void begin() {}
  /// f(flat_range, bucket_state) for chunks that are all of `within`, which is of what this rank updates, in order.
  template <class F>
  void each_chunk(const stored_bucket& s, flat_range within, state_parts, F&& f) {
    f(within, bucket_state{s.updated.begin, s.master_weights, s.first, s.second});
  }
  /// After a step's last chunk.
  void end() {}
};

/// Of one that copies it where the context says so. Two chunks have room on the device. Copies to it and from it have a
/// queue each, so both ways are busy at once.
template <staging_backend Backend>
class staged_state<Backend> {
  using queue = typename Backend::queue;
  using event = typename queue::event;
  static constexpr std::size_t arrays = 3;
  struct room {
    std::array<local_array, arrays> at;  // bytes
    event arrived, updated, returned;
  };

 public:
  explicit staged_state(context& ctx) : ctx_(ctx), chunk_(ctx.state_chunk()) {}
  staged_state(const staged_state&) = delete;
  staged_state& operator=(const staged_state&) = delete;

  /// Chunks of this bucket will come, too.
  void fit(const stored_bucket& s) {
    if (chunk_ == 0 || !s.key().trained) return;
    for (std::size_t i = 0; i < arrays; ++i)
      if (const local_array* const a = array(s, i))
        bytes_[i] = std::max(bytes_[i], std::min(chunk_, a->elements()) * static_cast<std::int64_t>(size_of(a->type)));
  }
  /// Takes the memory of both rooms.
  void allocate() {
    if (bytes_ == std::array<std::int64_t, arrays>{}) return;
    auto& own = ctx_.template queue<Backend>();
    to_device_ = own.beside(), to_host_ = own.beside();
    for (room& r : rooms_)
      for (std::size_t i = 0; i < arrays; ++i)
        if (bytes_[i] > 0) r.at[i] = ctx_.make(dtype::u8, shape{1, {bytes_[i]}}, memory::buffers);
  }
  /// What the rank's queue was given before may have written the state.
  void begin() {
    if (!to_device_) return;
    end();  // of a step that ended with an error
    ctx_.template queue<Backend>().record(begun_);
    to_device_->wait(begun_);
  }

  template <class F>
  void each_chunk(const stored_bucket& s, flat_range within, state_parts parts, F&& f) {
    if (!to_device_) return f(within, bucket_state{s.updated.begin, s.master_weights, s.first, s.second});
    for (std::int64_t begin = within.begin; begin < within.end; begin += chunk_)
      update({begin, std::min(begin + chunk_, within.end)}, s, parts, f);
  }
  void end() {
    if (to_device_) ctx_.template queue<Backend>().wait(rooms_[next_ ^ 1].returned);  // others came back before it
  }

 private:
  /// The bucket's array i, if it lies on the host.
  const local_array* array(const stored_bucket& s, std::size_t i) const {
    const local_array* const all[arrays] = {&s.master_weights, &s.first, &s.second};
    return *all[i] && ctx_.lies_on_host(all[i]->data) ? all[i] : nullptr;
  }
  template <class F>
  void update(flat_range chunk, const stored_bucket& s, state_parts parts, F&& f) {
    auto& own = ctx_.template queue<Backend>();
    room& r = rooms_[std::exchange(next_, next_ ^ 1)];
    const shape size{1, {chunk.size()}};
    const auto part_of = [&](const local_array& a) { return seen(a, chunk.begin - s.updated.begin, size); };
    std::array<local_array, arrays> on_host, here;
    for (std::size_t i = 0; i < arrays; ++i) {
      if (parts != state_parts::all && (i == 0) != (parts == state_parts::weights)) continue;
      if (const local_array* const a = array(s, i)) {
        on_host[i] = part_of(*a);
        here[i] = local_array(r.at[i].data, a->type, size);
      } else if (i == 0) {
        here[i] = part_of(s.master_weights);  // they are the weights
      }
    }
    to_device_->wait(r.returned);
    each_pair(on_host, here, [&](const local_array& a, const local_array& b) { copy(*to_device_, a, b); });
    to_device_->record(r.arrived);
    own.wait(r.arrived);
    f(chunk, bucket_state{chunk.begin, here[0], here[1], here[2]});
    own.record(r.updated);
    to_host_->wait(r.updated);
    each_pair(on_host, here, [&](const local_array& a, const local_array& b) { copy(*to_host_, b, a); });
    to_host_->record(r.returned);
  }
  template <class F>
  static void each_pair(const std::array<local_array, arrays>& on_host, const std::array<local_array, arrays>& here,
                        F&& f) {
    for (std::size_t i = 0; i < arrays; ++i)
      if (on_host[i]) f(on_host[i], here[i]);
  }
  static void copy(queue& q, const local_array& from, const local_array& to) {
    q.copy_pinned(from.data, to.data, static_cast<std::size_t>(from.bytes()));
  }

  context& ctx_;
  std::int64_t chunk_;
  std::array<std::int64_t, arrays> bytes_{};
  std::array<room, 2> rooms_;
  event begun_;
  std::size_t next_ = 0;
  std::unique_ptr<queue> to_device_, to_host_;  // end first
};

}  // namespace weft::detail
