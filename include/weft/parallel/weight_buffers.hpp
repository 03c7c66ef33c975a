// Buffers in which units become whole for a while, in turns: where they are gathered, and where what is stored in few
// bits becomes numbers.
// Invariant: all ranks gather the same units in the same order; a unit in use is never evicted.
#pragma once

#include <weft/tensor/context.hpp>

namespace weft {

/// Who fills a buffer with a unit: a parameter store.
class unit_gatherer {
 public:
  /// What of the unit lies there is on its way into `whole`.
  virtual void start_gathering(int unit, const local_array& whole) = 0;
  /// It is there.
  virtual void wait_gathering(int unit) = 0;

 protected:
  ~unit_gatherer() = default;
};

/// Source: the two buffers of YaFSDP (Yandex 2024), here as many as the policy's prefetch + 1.
class weight_buffers {
 public:
  explicit weight_buffers(unit_gatherer& by) : by_(by) {}
  /// `count` buffers of `elements` each. Nothing is allocated when count is 0. grows: whether there are more as soon as
  /// more units than that are in use at once.
  WEFT_LINKED void allocate(context& ctx, int count, std::int64_t elements, dtype type, bool grows = false) {
    ctx_ = &ctx, elements_ = elements, type_ = type, grows_ = grows;
    for (int i = 0; i < count; ++i) add();
  }

  /// The buffer in which `unit` is whole, held until release(unit).
  const local_array& acquire(int unit) {
    buffer& b = start(unit, true);
    by_.wait_gathering(unit);
    ++b.users;
    b.last_use = ++clock_;
    return b.whole;
  }
  /// Starts to gather `unit` if a buffer is free for it.
  void prefetch(int unit) { start(unit, false); }
  void release(int unit) {
    for (buffer& b : buffers_)
      if (b.unit == unit) --b.users;
  }
  /// Forgets what is gathered: the shares are about to change.
  void invalidate() {
    for (buffer& b : buffers_) empty(b);
  }

 private:
  struct buffer {
    local_array whole;
    int unit, users;
    std::uint64_t last_use;
  };

  buffer& add() {
    return buffers_.emplace_back(buffer{ctx_->make(type_, shape{1, {elements_}}, memory::buffers), -1, 0, 0});
  }
  void empty(buffer& b) {
    if (b.unit >= 0) by_.wait_gathering(b.unit);
    b.unit = -1;
  }
  WEFT_LINKED buffer& start(int unit, bool needed) {
    buffer* oldest = nullptr;
    for (buffer& b : buffers_) {
      if (b.unit == unit) return b;
      if (b.users == 0 && (!oldest || b.last_use < oldest->last_use)) oldest = &b;
    }
    if (!oldest && needed && grows_) oldest = &add();
    if (!oldest) {
      require(!needed, "more units are in use at once than there are gather buffers (", buffers_.size(),
              "); raise the sharding policy's prefetch");
      return buffers_.front();
    }
    empty(*oldest);
    by_.start_gathering(unit, oldest->whole);
    oldest->unit = unit;
    oldest->last_use = ++clock_;
    return *oldest;
  }

  unit_gatherer& by_;
  std::vector<buffer> buffers_;
  context* ctx_ = nullptr;
  std::int64_t elements_ = 0;
  dtype type_{};
  bool grows_ = false;
  std::uint64_t clock_ = 0;
};

}  // namespace weft
