// The inputs of checkpointed functions in the host's memory from their first run to their second, where kernels run on
// a device (DeepSpeed's cpu_checkpointing). Copies go on beside the kernels: the device's memory is let go of when the
// next function has run, and the input of the function before is on its way back while one runs again. Invariant: what
// the rank's queue is given finds an input where its value says, and the host waits for nothing.
#pragma once

#include <weft/tensor/context.hpp>

namespace weft::detail {

class input_offload;

/// A function's input, which may be elsewhere between its two runs.
class movable_input {
 public:
  explicit movable_input(const value& x, std::int64_t recorded_in)
      : input(x), version(x.version()), pass(recorded_in), made(x.data.buffer.made()) {}
  movable_input(const movable_input&) = delete;
  movable_input& operator=(const movable_input&) = delete;
  ~movable_input();

  /// Whether it is elsewhere, or on its way.
  bool moved() const { return moved_by_ != nullptr; }

  value input;            // without memory while it's elsewhere
  std::uint32_t version;  // of its memory, when nobody has written to it
  std::int64_t pass;      // that the function runs in, both times
  std::uint64_t made;     // the number of its allocation at first

 private:
  friend class input_offload;
  input_offload* moved_by_ = nullptr;  // null: it stays where it is
  movable_input *before_ = nullptr, *after_ = nullptr;
  local_array on_host_;
  local_array coming_;  // on the device, where it was asked for again
};

/// Those of a rank, in the order in which their functions ran.
class input_offload {
 public:
  explicit input_offload(context& ctx) : ctx_(ctx), host_(ctx.offload_memory()) {}
  input_offload(const input_offload&) = delete;
  input_offload& operator=(const input_offload&) = delete;
  virtual ~input_offload() {
    while (last_) forget(*last_);
  }

  /// Begins to move m's input, whose function has run. Afterwards the input of the function before is no longer on the
  /// device, unless somebody else has it, too.
  WEFT_LINKED void move(movable_input& m) {
    end_leaving();
    const local_array& x = m.input.data;
    m.on_host_ = local_array(host_, x.type, x.shape, memory::activations);
    leave(x, m.on_host_);
    m.moved_by_ = this, m.before_ = last_;
    if (last_) last_->after_ = &m;
    last_ = leaving_ = &m;
  }
  /// m's function runs again now: its input is on the device, and that of the same pass's function before sets out.
  WEFT_LINKED void bring_back(movable_input& m) {
    if (leaving_ != &m) {
      if (!m.coming_) begin_return(m);
      wait_for_returned();
      m.input.data = std::move(m.coming_);
      m.input.shares_memory = false;
      m.version = m.input.version();
    }
    movable_input* next = m.before_;
    forget(m);
    while (next && next->pass != m.pass) next = next->before_;
    if (next && next != leaving_ && !next->coming_) begin_return(*next);
  }
  /// m ends, and its function may not have run again.
  WEFT_LINKED void drop(movable_input& m) noexcept {
    try {
      if (m.coming_) wait_for_returned();
    } catch (...) {  // the device has failed, and was heard of elsewhere
    }
    forget(m);
  }

 protected:
  // Copies on queues of their own; what the rank's queue is given after wait_...() runs behind the last of them.
  virtual void leave(const local_array& here, const local_array& on_host) = 0;
  virtual void wait_for_left() = 0;
  virtual void come_back(const local_array& on_host, const local_array& here) = 0;
  virtual void wait_for_returned() = 0;

  context& ctx_;

 private:
  // Nobody waits for a copy to the host that nobody reads: what runs behind it there may write over it, in order. An
  // input that was written to since is kept, for its function's second run to refuse.
  void end_leaving() {
    movable_input* const m = std::exchange(leaving_, nullptr);
    if (!m) return;
    wait_for_left();
    if (m->input.version() != m->version) return forget(*m);
    m->input.data.buffer = {};
    m->input.data.data = nullptr;
  }
  void begin_return(movable_input& m) {
    m.coming_ = ctx_.make(m.on_host_.type, m.on_host_.shape);
    come_back(m.on_host_, m.coming_);
  }
  void forget(movable_input& m) noexcept {
    if (m.before_) m.before_->after_ = m.after_;
    (m.after_ ? m.after_->before_ : last_) = m.before_;
    if (leaving_ == &m) leaving_ = nullptr;
    m.moved_by_ = nullptr, m.before_ = m.after_ = nullptr;
    m.on_host_ = {}, m.coming_ = {};
  }

  arena& host_;
  movable_input* last_ = nullptr;     // of a list by `before_`
  movable_input* leaving_ = nullptr;  // whose copy to the host the rank's queue hasn't waited for
};

inline movable_input::~movable_input() {
  if (moved_by_) moved_by_->drop(*this);
}

/// The copies of a backend's queues, one of each direction.
template <staging_backend Backend>
class queued_offload final : public input_offload {
  using queue = typename Backend::queue;

 public:
  explicit queued_offload(context& ctx)
      : input_offload(ctx), own_(ctx.queue<Backend>()), to_host_(own_.beside()), to_device_(own_.beside()) {}

 private:
  void leave(const local_array& here, const local_array& on_host) override {
    own_.record(ready_);
    to_host_->wait(ready_);
    copy(*to_host_, here, on_host);
    to_host_->record(left_);
  }
  void wait_for_left() override { own_.wait(left_); }
  void come_back(const local_array& on_host, const local_array& here) override {
    own_.record(ready_);
    to_device_->wait(ready_);  // the device's memory is let go of by what the rank's queue was given before
    copy(*to_device_, on_host, here);
    to_device_->record(returned_);
  }
  void wait_for_returned() override { own_.wait(returned_); }
  static void copy(queue& q, const local_array& from, const local_array& to) {
    q.copy_pinned(from.data, to.data, static_cast<std::size_t>(from.bytes()));
  }

  queue& own_;
  typename queue::event ready_, left_, returned_;
  std::unique_ptr<queue> to_host_, to_device_;  // end first
};

/// The rank's, made when it is first asked for; null where kernels are given what lies on the host.
template <class Backend>
input_offload* offload_of(context& ctx) {
  if constexpr (staging_backend<Backend>) {
    if (!ctx.copies_beside()) return nullptr;
    auto& all = ctx.offload();
    if (!all) all = std::make_shared<queued_offload<Backend>>(ctx);
    return all.get();
  }
  return nullptr;
}

}  // namespace weft::detail
