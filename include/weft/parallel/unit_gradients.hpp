// Gradients of a model's units under a sharding policy: where a unit's backward writes them, and when they are summed
// over ranks. Invariant: a parameter's slot has memory for its gradient only while its unit is in its backward, so that
// nobody writes where a sum is under way; a frozen one's never has.
#pragma once

#include <algorithm>
#include <vector>

#include <weft/parallel/gradient_bucket.hpp>

namespace weft {

class unit_gradients {
 public:
  /// Of as many units as are then added.
  unit_gradients(context& ctx, const detail::store_kernels& kernels, std::size_t units)
      : ctx_(ctx), kernels_(kernels), units_(units) {}
  ~unit_gradients() {
    each_bucket([](bucket& b) { b.point_away(); });
  }
  unit_gradients(const unit_gradients&) = delete;
  unit_gradients& operator=(const unit_gradients&) = delete;

  /// The next bucket of unit `number`, whose sums this rank stores in `stored` and updates in `updated`.
  WEFT_LINKED void add(int number, const flat_bucket& flat, std::string_view name, flat_range stored,
                       flat_range updated) {
    unit_sums& u = of(number);
    bucket& b = u.buckets.emplace_back();
    u.name = name;
    b.kernels = &kernels_, b.flat = &flat, b.unit = name, b.stored = stored, b.updated = updated;
    b.group = flat.group;
    if (!b.trained()) return;
    trains_ = true;
    b.sums = ctx_.make(kernels_.gradient, shape{1, {stored.size()}}, memory::gradients);
    kernels_.zero(ctx_, b.sums);
    b.find_others(ctx_);
    if (b.sharded()) b.offset = std::exchange(u.whole, u.whole + flat.size);
    u.travels = u.travels || !b.others.empty() || (b.group->degree > 1 && !b.sharded());
    for (const flat_region& r : flat.regions) kernels_.keep_gradient(*r.slot);
  }
  /// After the last bucket.
  WEFT_LINKED void allocate_buffers() {
    std::int64_t largest = 0;
    for (const unit_sums& u : units_) largest = std::max(largest, u.whole);
    if (largest > 0)
      for (whole_gradient& g : whole_) g.elements = ctx_.make(kernels_.gradient, shape{1, {largest}}, memory::buffers);
  }

  /// Gradients are empty. Begins anew where a step before ended with an error.
  WEFT_LINKED void begin_step(int micro_batches) {
    detail::require_running_once(rank(), "begin_step()");
    require(micro_batches >= 1, "a step has at least 1 micro-batch, not ", micro_batches);
    for (unit_sums& u : units_) {
      u.posted = u.complete = false;
      u.uses = u.depth = u.backwards = 0;
      u.latest = -1;
    }
    for (whole_gradient& g : whole_) {
      complete(g);
      g.unit = -1;
    }
    each_bucket([&](bucket& b) { b.begin_step(ctx_.order()); });
    others_follow_ = nullptr;
    ++step_;
    failures_ = ctx_.failed_backwards.size();
    micro_batches_ = remaining_ = micro_batches;
    now_ = phase::adding;
  }
  std::uint64_t step_number() const { return step_; }
  WEFT_LINKED void end_micro_batch() {
    detail::require_running_once(rank(), "end_micro_batch()");
    if (failed()) return;
    require(now_ == phase::adding && remaining_ > 0,
            "end_micro_batch() came more often than begin_step() was told: call begin_step(micro_batches) before a "
            "step, with their number");
    const int ended = micro_batches_ - remaining_ + 1;
    const auto went_back = [&](const unit_sums& u) { return u.backwards >= ended; };
    require(!trains_ || std::any_of(units_.begin(), units_.end(), went_back), "micro-batch ", ended, " of ",
            micro_batches_,
            " ends without a backward through any of the store's units: call backward(loss) before end_micro_batch(), "
            "and tell begin_step() how many micro-batches have one");
    --remaining_;
  }
  /// Waits for every sum. Afterwards this rank has the finished ones of what it stores. at: where the program asks.
  WEFT_LINKED void finish(call_site at) {
    detail::require_running_once(rank(), "finish_gradients()");
    require(!failed(),
            "the step's backward ended with an error, so its gradients are in part: call begin_step() and compute it "
            "again");
    require(now_ == phase::adding,
            "finish_gradients() takes a step that begin_step(micro_batches) has begun, once: what was finished would "
            "be summed again");
    require(remaining_ == 0, "finish_gradients(): the step was begun for ", micro_batches_, " micro-batches, and ",
            micro_batches_ - remaining_, " have ended; call end_micro_batch() after the backward of each");
    for (whole_gradient& g : whole_) complete(g);
    for (unit_sums& u : units_)
      for (bucket& b : u.buckets) {
        if (!b.trained()) continue;
        if (b.sharded()) {
          if (!b.has_sum) kernels_.zero(ctx_, b.sums);  // not used in this step
        } else if (!u.posted) {                         // else its reduction may be reading
          b.post_reduction(ctx_);
        }
      }
    for (bool more = true; std::exchange(more, false);) each_bucket([&](bucket& b) { more |= b.post_other(ctx_); });
    detail::finish_other_axes(ctx_, kernels_, units_, at);
    now_ = phase::finished;
  }
  /// The rank whose gradients they are. Throws after its launch has ended, and on another rank's thread.
  context& rank() const { return *rank_.get("a parameter store"); }
  /// Throws unless gradients are finished, or none were ever asked for. `what`: the call that needs them.
  void require_finished(const char* what) const {
    rank();
    require(now_ == phase::finished || now_ == phase::used || now_ == phase::none, what,
            ": the gradients are not summed over ranks yet; call finish_gradients() first");
  }
  /// An update uses them up. Throws where one did, and where they aren't finished.
  WEFT_LINKED void use_up(const char* what) {
    detail::require_running_once(rank(), what);
    require_finished(what);
    require(now_ != phase::none, what,
            ": no step has begun; begin_step(micro_batches), the backwards and finish_gradients() come before it");
    require(now_ != phase::used, what,
            ": an update has used this step's gradients up; begin_step(micro_batches) begins the next step");
    now_ = phase::used;
  }

  /// The sums of elements of a unit's trained bucket that this rank stores.
  local_array at(std::size_t unit, std::size_t number, const flat_range& part) const {
    return units_[unit].buckets[number].at(part);
  }

  /// A forward was recorded, whose backward is to come.
  void recorded(int unit) {
    unit_sums& u = of(unit);
    ++u.uses;
    u.latest = std::max(u.latest, ctx_.micro_batch);
  }
  WEFT_LINKED void begin_backward(int number) {
    unit_sums& u = of(number);
    require(now_ == phase::adding, "a backward through ", u.name,
            " comes outside of a step, so its gradients would be lost: call begin_step(micro_batches) before it");
    require(!u.complete, "the gradients of ", u.name, " are complete: the step was begun for ", micro_batches_,
            " micro-batches, and here come more; tell begin_step() how many micro-batches (forwards with their "
            "backwards) it has");
    ++u.backwards;
    if (u.depth++ > 0) return;  // the unit within itself
    const local_array* whole = nullptr;
    if (u.whole > 0) {
      if (whole_[turn_ % 2].unit >= 0) ++turn_;  // around this unit
      whole_gradient& g = whole_[turn_++ % 2];
      require(g.unit < 0, "more than two units are in their backward at once, one inside the other");
      complete(g);
      g.unit = number;
      whole = &g.elements;
    }
    for (bucket& b : u.buckets)
      if (b.trained()) b.point_to(b.sharded() ? part(*whole, b) : b.sums);
  }
  WEFT_LINKED void end_backward(int number) {
    unit_sums& u = of(number);
    --u.uses;
    if (--u.depth > 0) return;
    for (whole_gradient& g : whole_)
      if (g.unit == number) post_reduce_scatters(u, g);
    u.complete = u.uses == 0 && (remaining_ == 1 || u.latest == micro_batches_ - 1);
    if (u.travels && u.complete) {
      u.posted = true;
      for (bucket& b : u.buckets)
        if (b.trained() && !b.sharded()) b.post_reduction(ctx_);
      if (others_follow_) sum_along_others(*others_follow_);
      others_follow_ = u.whole == 0 ? &u : nullptr;
    }
    for (bucket& b : u.buckets) b.point_away();
  }
  /// The unit's backward ended with an error.
  WEFT_LINKED void abandon(int number) {
    unit_sums& u = of(number);
    u.depth = 0;
    for (whole_gradient& g : whole_)
      if (g.unit == number) g.unit = -1;
    for (bucket& b : u.buckets) b.point_away();
    now_ = phase::failed;
  }

 private:
  using bucket = detail::gradient_bucket;
  using unit_sums = detail::unit_sums;
  // A unit's whole gradient on its way to being reduced; two take turns.
  struct whole_gradient {
    local_array elements;
    int unit = -1;            // in its backward just now
    unit_sums* to = nullptr;  // whose reduce-scatters are under way
  };
  enum class phase : std::uint8_t { none, adding, failed, finished, used };

  bool failed() const {
    return now_ == phase::failed || (now_ == phase::adding && failures_ != ctx_.failed_backwards.size());
  }
  unit_sums& of(int number) { return units_[static_cast<std::size_t>(number)]; }
  template <class F>
  void each_bucket(F&& f) {
    for (unit_sums& u : units_)
      for (bucket& b : u.buckets) f(b);
  }
  static local_array part(const local_array& whole, const bucket& b) {
    return detail::seen(whole, b.offset, {1, {b.flat->size}});
  }
  WEFT_LINKED void post_reduce_scatters(unit_sums& u, whole_gradient& g) {
    for (whole_gradient& earlier : whole_)  // the unit's last one, which this one adds to
      if (earlier.to == &u) complete(earlier);
    g.to = &u;
    g.unit = -1;
    for (bucket& b : u.buckets)
      if (b.sharded()) b.post_reduce_scatter(ctx_, part(g.elements, b));
  }
  WEFT_LINKED void complete(whole_gradient& g) {
    unit_sums* const u = std::exchange(g.to, nullptr);
    if (!u) return;
    for (bucket& b : u->buckets)
      if (b.sharded()) b.complete(ctx_);
    if (u->posted) sum_along_others(*u);
  }
  // What was summed along a unit's storage travels on, while another unit is in its backward.
  void sum_along_others(unit_sums& u) {
    for (bucket& b : u.buckets)
      if (!b.others.empty() && b.summed == 0) b.post_other(ctx_);
  }

  context& ctx_;
  const detail::store_kernels& kernels_;
  context_ref rank_{&ctx_};
  std::vector<unit_sums> units_;
  whole_gradient whole_[2];
  unsigned turn_ = 0;
  // The unit, without sharded gradients, whose sums along its storage were begun last: those along other axes follow at
  // the next unit's. Null: none.
  unit_sums* others_follow_ = nullptr;
  std::uint64_t step_ = 0;
  int micro_batches_ = 0, remaining_ = 0;
  std::size_t failures_ = 0;  // backwards of this rank's that had ended with an error before the step
  bool trains_ = false;
  phase now_ = phase::none;
};

}  // namespace weft
