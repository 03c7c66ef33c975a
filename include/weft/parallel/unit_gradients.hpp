// Gradients of a model's units under a sharding policy: where a unit's backward writes them, and when they are summed
// over ranks. Invariant: a parameter's slot has memory for its gradient only while its unit is in its backward, so that
// nobody writes where a sum is under way; and a finished sum was finished once.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/parallel/flat_unit.hpp>
#include <weft/parallel/store_config.hpp>

namespace weft {

template <class Backend, class Precision>
class unit_gradients {
 public:
  using gradient = typename Precision::gradient;
  using reduce_type = typename Precision::reduce;

  unit_gradients(context& ctx, const store_config& config)
      : ctx_(ctx), config_(config), group_(ctx.group(config.axis)) {}
  ~unit_gradients() {
    for (unit_sums& u : units_) point_away(u);
  }
  unit_gradients(const unit_gradients&) = delete;
  unit_gradients& operator=(const unit_gradients&) = delete;

  /// A unit, by the number that it gets, whose sums this rank stores in `stored` and updates in `updated`.
  void add(const flat_unit& flat, std::string_view name, flat_range stored, flat_range updated) {
    unit_sums& u = units_.emplace_back();
    u.flat = &flat, u.name = name, u.stored = stored, u.updated = updated;
    u.sums = make(stored.size(), dtype_of<gradient>, memory::gradients);
    Backend::zero(queue(), u.sums);
    for (const flat_region& r : flat.regions)
      detail::keep_gradient_in<Backend, gradient, typename Precision::compute>(*r.slot);
  }
  /// After the last unit; `largest` is the size of the largest, in elements.
  void allocate_buffers(std::int64_t largest) {
    if (config_.shards_gradients)
      for (whole_gradient& g : whole_) g.elements = make(largest, dtype_of<gradient>, memory::buffers);
  }

  /// Gradients are empty. Begins anew where a step before ended with an error.
  void begin_step(int micro_batches) {
    require(micro_batches >= 1, "a step has at least 1 micro-batch, not ", micro_batches);
    for (whole_gradient& g : whole_) {
      complete(g);
      g.unit = -1;
    }
    for (unit_sums& u : units_) {
      u.reduction.wait();
      u.staging = {};
      u.has_sum = u.posted = false;
      u.uses = u.depth = 0;
      point_away(u);
      for (const flat_region& r : u.flat->regions) r.slot->has_gradient = false;
    }
    ++step_;
    micro_batches_ = remaining_ = micro_batches;
    now_ = phase::adding;
  }
  std::uint64_t step_number() const { return step_; }
  void end_micro_batch() {
    if (now_ == phase::failed) return;
    require(now_ == phase::adding && remaining_ > 0,
            "end_micro_batch() came more often than begin_step() was told: call begin_step(micro_batches) before a "
            "step, with their number");
    --remaining_;
  }
  /// Waits for every sum. Afterwards this rank has the finished ones of what it stores.
  void finish() {
    require(now_ != phase::failed,
            "the step's backward ended with an error, so its gradients are in part: call begin_step() and compute it "
            "again");
    require(now_ == phase::adding,
            "finish_gradients() takes a step that begin_step(micro_batches) has begun, once: what was finished would "
            "be summed again");
    require(remaining_ == 0, "finish_gradients(): the step was begun for ", micro_batches_, " micro-batches, and ",
            micro_batches_ - remaining_, " have ended; call end_micro_batch() after the backward of each");
    for (whole_gradient& g : whole_) complete(g);
    for (unit_sums& u : units_) {
      if (config_.shards_gradients) {
        if (!u.has_sum) Backend::zero(queue(), u.sums);  // not used in this step
      } else if (!u.posted) {                            // else its reduction may be reading
        fill_gaps(u, u.sums);
        if (group_) post_reduction(u);
      }
    }
    for (unit_sums& u : units_) u.reduction.wait();
    finish_other_axes();
    now_ = phase::finished;
  }
  /// Throws unless gradients are finished, or none were ever asked for. `what`: the call that needs them.
  void require_finished(const char* what) const {
    require(now_ == phase::finished || now_ == phase::none, what,
            ": the gradients are not summed over ranks yet; call finish_gradients() first");
  }

  /// Element `flat_index` of a unit's sums, which this rank stores.
  gradient* at(int unit, std::int64_t flat_index) const {
    return units_[static_cast<std::size_t>(unit)].at(flat_index);
  }

  /// A forward was recorded, whose backward is to come.
  void recorded(int unit) { ++of(unit).uses; }
  void begin_backward(int number) {
    unit_sums& u = of(number);
    require(now_ == phase::adding, "a backward through ", u.name,
            " comes outside of a step, so its gradients would be lost: call begin_step(micro_batches) before it");
    require(!u.posted, "the gradients of ", u.name,
            " were already sent to be summed, and here come more: tell begin_step() how many micro-batches (forwards "
            "with their backwards) the step has");
    if (u.depth++ > 0) return;  // the unit within itself
    local_array whole = u.sums;
    if (config_.shards_gradients) {
      if (whole_[turn_ % 2].unit >= 0) ++turn_;  // around this unit
      whole_gradient& g = whole_[turn_++ % 2];
      require(g.unit < 0, "more than two units are in their backward at once, one inside the other");
      complete(g);
      g.unit = number;
      whole = g.elements;
    }
    for (const flat_region& r : u.flat->regions)
      r.slot->gradient = local_array(whole.template as<gradient>() + r.begin, dtype_of<gradient>, r.parameter->local);
  }
  void end_backward(int number) {
    unit_sums& u = of(number);
    --u.uses;
    if (--u.depth > 0) return;
    if (config_.shards_gradients) {
      for (whole_gradient& g : whole_)
        if (g.unit == number) post_reduce_scatter(u, g);
    } else if (group_ && remaining_ == 1 && u.uses == 0) {
      fill_gaps(u, u.sums);
      post_reduction(u);
    }
    point_away(u);
  }
  /// The unit's backward ended with an error.
  void abandon(int number) {
    unit_sums& u = of(number);
    u.depth = 0;
    for (whole_gradient& g : whole_)
      if (g.unit == number) g.unit = -1;
    point_away(u);
    now_ = phase::failed;
  }

 private:
  struct unit_sums {
    const flat_unit* flat;
    std::string_view name;
    flat_range stored, updated;
    local_array sums;
    local_array staging;  // in the type that they travel in, if that is another
    request reduction;
    int uses = 0;          // recorded forwards whose backward is to come
    int depth = 0;         // backwards that it is in, one inside the other
    bool has_sum = false;  // sharded: whether `sums` holds one yet
    bool posted = false;

    gradient* at(std::int64_t flat_index) const { return sums.template as<gradient>() + (flat_index - stored.begin); }
  };
  // A unit's whole gradient on its way to being reduced; two take turns.
  struct whole_gradient {
    local_array elements, sent, received;
    int unit = -1;            // in its backward just now
    unit_sums* to = nullptr;  // whose reduce-scatter is under way
    request reduction;
  };
  enum class phase : std::uint8_t { none, adding, failed, finished };

  auto& queue() { return ctx_.queue<Backend>(); }
  unit_sums& of(int number) { return units_[static_cast<std::size_t>(number)]; }
  local_array make(std::int64_t n, dtype type, memory category) { return ctx_.make(type, {1, {n}}, category); }
  template <class From, class To>
  void convert(const local_array& from, const local_array& to, bool add = false) {
    detail::add_converted<Backend, To, From>(ctx_, from, to, add);
  }
  static void point_away(unit_sums& u) {
    for (const flat_region& r : u.flat->regions) r.slot->gradient = {};
  }

  // Zeros where no gradient came, in padding, and between the parameters.
  void fill_gaps(unit_sums& u, const local_array& whole) {
    auto* g = whole.template as<gradient>();
    std::int64_t end = 0;
    const auto clear = [&](std::int64_t from, std::int64_t to) {
      if (to > from) Backend::zero(queue(), local_array(g + from, dtype_of<gradient>, {1, {to - from}}));
    };
    for (const flat_region& r : u.flat->regions) {
      clear(end, r.begin);
      if (!r.slot->has_gradient)
        clear(r.begin, r.begin + r.count);
      else
        clear_padding(*r.parameter, g + r.begin);
      end = r.begin + r.count;
    }
    clear(end, u.flat->size);
  }
  void clear_padding(const parameter_record& p, gradient* g) {
    const shape valid = p.at.valid_part();
    if (valid == p.local) return;
    const local_array all(g, dtype_of<gradient>, p.local);
    const local_array cleared = detail::with_padding<Backend>(ctx_, all, valid);
    Backend::copy_bytes(queue(), cleared.data, g, all.bytes());
  }

  void post_reduce_scatter(unit_sums& u, whole_gradient& g) {
    fill_gaps(u, g.elements);
    for (const flat_region& r : u.flat->regions) r.slot->has_gradient = false;
    for (whole_gradient& earlier : whole_)  // the unit's last one, which this one adds to
      if (earlier.to == &u) complete(earlier);
    const std::int64_t share = u.stored.size();
    const local_array travels = in_reduce_type(local_array(g.elements.data, dtype_of<gradient>, {1, {u.flat->size}}));
    const bool direct = std::is_same_v<gradient, reduce_type> && !u.has_sum;
    g.sent = travels;
    g.received = direct ? u.sums : make(share, dtype_of<reduce_type>, memory::buffers);
    g.to = &u;
    g.unit = -1;
    g.reduction = group_->comm.reduce_scatter(travels.data, g.received.data, share, dtype_of<reduce_type>,
                                              reduction::sum, collective_label{"gradients", {}, u.name});
  }
  void complete(whole_gradient& g) {
    if (!g.to) return;
    g.reduction.wait();
    if (g.received.data != g.to->sums.data) convert<reduce_type, gradient>(g.received, g.to->sums, g.to->has_sum);
    g.to->has_sum = true;
    g.to = nullptr;
    g.sent = g.received = {};
  }

  // Whole gradients: summed on every rank, or each share only on the rank that will update it.
  void post_reduction(unit_sums& u) {
    u.posted = true;
    u.staging = in_reduce_type(u.sums);
    auto* g = u.staging.template as<reduce_type>();
    const collective_label label{"gradients", {}, u.name};
    u.reduction = config_.shards_optimizer
                      ? group_->comm.reduce_scatter(g, g + u.updated.begin, u.updated.size(), dtype_of<reduce_type>,
                                                    reduction::sum, label)
                      : group_->comm.all_reduce(g, g, u.flat->size, dtype_of<reduce_type>, reduction::sum, label);
  }
  local_array in_reduce_type(const local_array& g) {
    if constexpr (std::is_same_v<gradient, reduce_type>) return g;
    local_array out = make(g.elements(), dtype_of<reduce_type>, memory::buffers);
    convert<gradient, reduce_type>(g, out);
    return out;
  }

  // Sums pending on axes other than that of the storage (norms under sequence parallelism, everything over the outer
  // axis of `hybrid`): all such parameters in one all-reduce an axis.
  void finish_other_axes() {
    for (unit_sums& u : units_) {
      if (u.staging && u.staging.data != u.sums.data) convert<reduce_type, gradient>(u.staging, u.sums);
      u.staging = {};
    }
    for (const axis_group& along : ctx_.axes()) {
      axis_group* group = along.axis == config_.axis ? nullptr : ctx_.group(along.axis);
      if (!group) continue;
      std::int64_t n = 0;
      each_pending(along.axis, [&](gradient*, std::int64_t count) { n += count; });
      if (n == 0) continue;
      local_array joined = make(n, dtype_of<gradient>, memory::buffers);
      auto* at = joined.template as<gradient>();
      each_pending(along.axis, [&](gradient* g, std::int64_t count) {
        Backend::copy_bytes(queue(), g, at, count * static_cast<std::int64_t>(sizeof(gradient)));
        at += count;
      });
      const local_array travels = in_reduce_type(joined);
      group->comm
          .all_reduce(travels.data, travels.data, n, dtype_of<reduce_type>, reduction::sum,
                      {"pending gradients of all units"})
          .wait();
      if (travels.data != joined.data) convert<reduce_type, gradient>(travels, joined);
      at = joined.template as<gradient>();
      each_pending(along.axis, [&](gradient* g, std::int64_t count) {
        Backend::copy_bytes(queue(), at, g, count * static_cast<std::int64_t>(sizeof(gradient)));
        at += count;
      });
    }
  }
  template <class F>
  void each_pending(axis_id axis, F&& f) {
    for (unit_sums& u : units_)
      for (const flat_region& r : u.flat->regions) {
        const auto& pending = r.parameter->pending;
        if (std::find(pending.begin(), pending.end(), axis) == pending.end()) continue;
        const flat_range part = u.updated.overlap(r);
        if (part.size() > 0) f(u.at(part.begin), part.size());
      }
  }

  context& ctx_;
  store_config config_;
  axis_group* group_;
  std::deque<unit_sums> units_;
  whole_gradient whole_[2];
  unsigned turn_ = 0;
  std::uint64_t step_ = 0;
  int micro_batches_ = 0, remaining_ = 0;
  phase now_ = phase::none;
};

}  // namespace weft
