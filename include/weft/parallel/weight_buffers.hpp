// Gather buffers: where units whose parameters are sharded become whole for a while, in turns.
// Invariant: all ranks gather the same units in the same order; a unit in use is never evicted.
#pragma once

#include <weft/comm/context.hpp>

namespace weft {

/// Source: the two buffers of YaFSDP (Yandex 2024), here as many as the policy's prefetch + 1.
class weight_buffers {
 public:
  /// `count` buffers of `elements` each. Nothing is allocated when count is 0.
  void allocate(context& ctx, int count, std::int64_t elements, dtype type) {
    for (int i = 0; i < count; ++i)
      buffers_.push_back({ctx.make(type, {1, {elements}}, memory::buffers), -1, 0, 0, {}});
  }

  /// The buffer in which `unit`, of this name, is whole, gathered from every rank's share, and held until
  /// release(unit).
  const local_array& acquire(int unit, std::string_view name, axis_group& group, const local_array& share) {
    buffer& b = start(unit, name, group, share, true);
    b.gathering.wait();
    ++b.users;
    b.last_use = ++clock_;
    return b.whole;
  }
  /// Starts to gather `unit` if a buffer is free for it.
  void prefetch(int unit, std::string_view name, axis_group& group, const local_array& share) {
    start(unit, name, group, share, false);
  }
  void release(int unit) {
    for (buffer& b : buffers_)
      if (b.unit == unit) --b.users;
  }
  /// Forgets what is gathered: the shares are about to change.
  void invalidate() {
    for (buffer& b : buffers_) {
      b.gathering.wait();
      b.unit = -1;
    }
  }

 private:
  struct buffer {
    local_array whole;
    int unit, users;
    std::uint64_t last_use;
    request gathering;
  };

  buffer& start(int unit, std::string_view name, axis_group& group, const local_array& share, bool needed) {
    buffer* oldest = nullptr;
    for (buffer& b : buffers_) {
      if (b.unit == unit) return b;
      if (b.users == 0 && (!oldest || b.last_use < oldest->last_use)) oldest = &b;
    }
    if (!oldest) {
      require(!needed, "more units are in use at once than there are gather buffers (", buffers_.size(),
              "); raise the sharding policy's prefetch");
      return buffers_.front();
    }
    oldest->gathering.wait();
    oldest->unit = unit;
    oldest->last_use = ++clock_;
    oldest->gathering = group.comm.all_gather(share.data, oldest->whole.data, share.bytes(), {"weights", {}, name});
    return *oldest;
  }

  std::vector<buffer> buffers_;
  std::uint64_t clock_ = 0;
};

}  // namespace weft
