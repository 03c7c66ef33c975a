// The parameter store: the memory of a model's parameters, gradients and optimizer state under a sharding policy, and
// when it moves. Invariant: between begin_step() and finish_gradients() a gradient is a sum over this rank's
// micro-batches; afterwards nothing is pending, and every element is held by the rank that will update it.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/parallel/flat_unit.hpp>
#include <weft/parallel/gradient_norm.hpp>
#include <weft/parallel/store_config.hpp>
#include <weft/parallel/weight_buffers.hpp>

namespace weft {

/// Source: ZeRO (Rajbhandari et al. 2020), FSDP (Zhao et al. 2023), and for the two reused buffers YaFSDP.
template <class Backend, class Precision>
class parameter_store final : public unit_hooks, weight_source {
 public:
  using compute = typename Precision::compute;
  using gradient = typename Precision::gradient;
  using reduce_type = typename Precision::reduce;
  using master = typename Precision::master;

  /// Allocates everything that lasts and fills in the initial weights, each rank its own. The registry has to outlive
  /// it. Throws when a parameter's gradient isn't pending over the data axis, since that is the sum that is finished
  /// here.
  parameter_store(context& ctx, parameter_registry& registry, store_config config)
      : ctx_(ctx), config_(config), group_(ctx.group(config.axis)) {
    const int parts = group_ ? group_->degree : 1;
    if (parts == 1) config_.shards_parameters = config_.shards_gradients = config_.shards_optimizer = false;
    std::int64_t largest = 0;
    for (parameter_unit& u : registry.units()) {
      for (const parameter_record& p : u.parameters) check(p);
      unit_state& s = units_.emplace_back();
      s.flat = flat_unit(u, parts);
      s.name = u.name;
      largest = std::max(largest, s.flat.size);
      for (parameter_record& p : u.parameters) p.live->source = this;
      allocate(s, parts);
    }
    if (config_.shards_parameters) gathered_.allocate(ctx, config_.prefetch + 1, largest, dtype_of<compute>);
    if (config_.shards_gradients)
      for (full_gradient& g : full_) g.whole = make(largest, dtype_of<gradient>, memory::buffers);
  }
  parameter_store(const parameter_store&) = delete;
  parameter_store& operator=(const parameter_store&) = delete;

  /// Starts a step: gradients are empty. micro_batches: how many backward passes will add to them.
  void begin_step(int micro_batches) {
    remaining_ = micro_batches;
    for (unit_state& u : units_) {
      u.has_gradient = u.posted = false;
      u.uses = 0;
      for (const flat_region& r : u.flat.regions) r.parameter->slot->has_gradient = false;
    }
  }
  /// Says that a micro-batch's backward has run.
  void end_micro_batch() { --remaining_; }

  /// Waits for every reduction. Afterwards each rank holds finished sums for what it stores.
  void finish_gradients() {
    for (full_gradient& g : full_) complete(g);
    for (unit_state& u : units_) {
      if (config_.shards_gradients) {
        if (!u.has_gradient) Backend::zero(queue(), u.gradients);  // not used in this step
      } else if (!u.posted) {                                      // else its reduction may be reading
        close_region_gaps(u, u.gradients);
        if (group_) post_reduction(u);
      }
    }
    for (unit_state& u : units_) u.reduction.wait();
    finish_other_axes();
  }

  /// The norm of all gradients, each element counted once: which sums cross which axis follows from the parameters'
  /// types.
  double gradient_norm() {
    norm_parts_.clear();
    for (unit_state& u : units_)
      for (const flat_region& r : u.flat.regions) {
        if (!r.parameter->counted) continue;
        const flat_range part = u.optimizer_range.overlap(r);
        const double squares = Backend::sum_of_squares(queue(), part.size(), u.gradient_at(part.begin));
        norm_parts_.add(squares, r.parameter->sharded, config_.shards_optimizer ? config_.axis : nullptr);
      }
    return std::sqrt(norm_parts_.total());
  }

  /// Updates master weights and what operators see of them. weight_decay applies to matrices, not to vectors.
  void step(const adamw_step& step) {
    gathered_.invalidate();
    for (unit_state& u : units_) {
      u.gathering.wait();
      for (const flat_region& r : u.flat.regions) {
        const flat_range part = u.optimizer_range.overlap(r);
        adamw_step own = step;
        if (!r.parameter->decays) own.weight_decay = 0;
        const std::int64_t o = part.begin - u.optimizer_range.begin;
        compute* working =
            shares_master() ? nullptr : u.weights.template as<compute>() + (part.begin - u.weight_range.begin);
        Backend::adamw(queue(), own, part.size(), u.master_weights.template as<master>() + o,
                       u.first.template as<master>() + o, u.second.template as<master>() + o,
                       static_cast<const gradient*>(u.gradient_at(part.begin)), working);
      }
      if (config_.shards_optimizer && !config_.shards_parameters) {
        auto* all = u.weights.template as<compute>();
        const std::int64_t bytes = u.optimizer_range.size() * static_cast<std::int64_t>(sizeof(compute));
        u.gathering = group_->comm.all_gather(all + u.optimizer_range.begin, all, bytes,
                                              {"weights", {}, u.name});  // awaited by the unit's next use
      }
    }
  }

  /// Calls f(record, local gradient, local weights) for every parameter, gathered along the data axis. For tests,
  /// monitors and saving: it moves whole units.
  template <class F>
  void each_parameter(F&& f) {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      unit_state& u = units_[i];
      array all_gradients = u.gradients, all_weights = u.master_weights;
      if (config_.shards_optimizer) {
        all_gradients =
            whole_of(array(u.gradient_at(u.optimizer_range.begin), dtype_of<gradient>, {1, {u.optimizer_range.size()}}),
                     u.flat.size, {"gradients", {}, u.name});
        all_weights = whole_of(u.master_weights, u.flat.size, {"master weights", {}, u.name});
      }
      for (const flat_region& r : u.flat.regions)
        f(static_cast<const parameter_record&>(*r.parameter),
          static_cast<const gradient*>(all_gradients.template as<gradient>() + r.begin),
          static_cast<const master*>(all_weights.template as<master>() + r.begin));
    }
  }

  /// Sets the weights: f(record) returns all of a parameter's numbers (a vector or span of them, row-major by
  /// record.global), of which each rank takes what it holds, for the optimizer and for operators at once. Moments stay
  /// as they are. Between steps, on the host's backend; nothing moves between ranks. Throws weft::error where f returns
  /// another count of numbers than the parameter has elements.
  template <class F>
  void load_parameters(F&& f) {
    gathered_.invalidate();
    for (unit_state& u : units_) {
      u.gathering.wait();
      for (const flat_region& r : u.flat.regions) {
        const auto numbers = f(static_cast<const parameter_record&>(*r.parameter));
        const std::int64_t count = static_cast<std::int64_t>(numbers.size()), wanted = r.parameter->global.elements();
        require(count == wanted, "parameter ", r.parameter->name, " has ", wanted, " elements, and ", count,
                " numbers were given for it");
        detail::load_region(r, u.optimizer_range, numbers, u.master_weights.template as<master>());
        if (!shares_master())
          detail::load_region<compute, master>(r, u.weight_range, numbers, u.weights.template as<compute>());
      }
    }
  }

  /// Calls f(stored_parameter) for what this rank keeps of every parameter. Gradients are finished after
  /// finish_gradients() only. For monitors: it moves nothing, and what is written there reaches no operator before the
  /// next step (load_parameters sets weights).
  template <class F>
  void each_stored(F&& f) {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      unit_state& u = units_[i];
      for (const flat_region& r : u.flat.regions) {
        const flat_range part = u.optimizer_range.overlap(r);
        if (part.size() == 0) continue;
        const std::int64_t o = part.begin - u.optimizer_range.begin;
        const shape size{1, {part.size()}};
        const auto state = [&](const array& a) { return array(a.template as<master>() + o, dtype_of<master>, size); };
        f(stored_parameter{static_cast<int>(i), *r.parameter, config_.shards_optimizer ? config_.axis : nullptr,
                           part.begin - r.begin, state(u.master_weights),
                           array(u.gradient_at(part.begin), dtype_of<gradient>, size), state(u.first),
                           state(u.second)});
      }
    }
  }

  void before_forward(int unit, bool recorded) override {
    unit_state& u = at(unit);
    if (recorded) ++u.uses;
    bring(unit);
    ahead(unit + 1);
  }
  void after_forward(int unit) override { leave(unit); }
  void before_backward(int unit, backward_part part) override {
    if (part != backward_part::weights) {
      bring(unit);
      ahead(unit - 1);
    }
    if (part == backward_part::inputs) return;
    unit_state& u = at(unit);
    require(!u.posted,
            "a unit's gradients were already sent to be summed, and here come more: tell begin_step() how many "
            "micro-batches "
            "(forwards with their backwards) the step has");
    array whole = u.gradients;
    if (config_.shards_gradients) {
      if (full_[turn_ % 2].unit >= 0) ++turn_;  // around this unit
      full_gradient& g = full_[turn_++ % 2];
      require(g.unit < 0, "more than two units are in their backward at once, one inside the other");
      complete(g);
      g.unit = unit;
      whole = g.whole;
    }
    for (const flat_region& r : u.flat.regions) {
      slot& s = *r.parameter->slot;
      s.gradient = array(whole.template as<gradient>() + r.begin, dtype_of<gradient>, r.parameter->local);
    }
  }
  void after_backward(int unit, backward_part part) override {
    unit_state& u = at(unit);
    if (part != backward_part::weights || std::exchange(u.gathered_again, false)) leave(unit);
    if (part == backward_part::inputs) return;
    --u.uses;
    if (config_.shards_gradients) {
      for (full_gradient& g : full_)
        if (g.unit == unit) post_reduce_scatter(u, g);
    } else if (group_ && remaining_ == 1 && u.uses == 0) {
      close_region_gaps(u, u.gradients);
      post_reduction(u);
    }
  }

  std::string_view unit_name(int unit) const override { return units_[static_cast<std::size_t>(unit)].name; }

 private:
  struct unit_state {
    std::string_view name;
    flat_unit flat;
    flat_range weight_range, gradient_range, optimizer_range;
    array weights, gradients, master_weights, first, second;
    array staging;  // gradients in the type that they travel in, if that is another
    request reduction, gathering;
    int uses = 0;               // recorded forwards whose backward is to come
    bool has_gradient = false;  // sharded: whether `gradients` holds a sum yet
    bool posted = false;
    bool gathered_again = false;  // for entries that read weights when these get their gradients

    gradient* gradient_at(std::int64_t flat_index) const {
      return gradients.template as<gradient>() + (flat_index - gradient_range.begin);
    }
  };
  // A unit's whole gradient on its way to being reduced; two take turns.
  struct full_gradient {
    array whole, sent, received;
    int unit = -1;             // in its backward just now
    unit_state* to = nullptr;  // whose reduce-scatter is under way
    request reduction;
  };

  auto& queue() { return ctx_.queue<Backend>(); }
  unit_state& at(int unit) { return units_[static_cast<std::size_t>(unit)]; }
  array make(std::int64_t n, dtype type, memory category) { return ctx_.make(type, {1, {n}}, category); }
  template <class From, class To>
  void convert(const array& from, const array& to, bool add = false) {
    detail::add_converted<Backend, To, From>(ctx_, from, to, add);
  }
  // Where weights and master weights are the same numbers, they are the same memory.
  bool shares_master() const {
    return std::is_same_v<compute, master> && config_.shards_parameters == config_.shards_optimizer;
  }

  void check(const parameter_record& p) const {
    require(
        !group_ || std::find(p.pending.begin(), p.pending.end(), config_.axis) != p.pending.end(),
        "the gradient of parameter ", p.name, " is not left pending over ", std::string(group_ ? group_->name : ""),
        ", the sharding policy's axis, so summing it there would be wrong; declare it as weight<strategy, dims<...>>");
    detail::keep_gradient_in<Backend, gradient, compute>(*p.slot);
  }

  void allocate(unit_state& s, int parts) {
    const flat_range share = s.flat.share(group_ ? group_->index : 0, parts), all = s.flat.everything();
    s.weight_range = config_.shards_parameters ? share : all;
    s.gradient_range = config_.shards_gradients ? share : all;
    s.optimizer_range = config_.shards_optimizer ? share : all;
    s.master_weights =
        make(s.optimizer_range.size(), dtype_of<master>, shares_master() ? memory::parameters : memory::optimizer);
    s.first = make(s.optimizer_range.size(), dtype_of<master>, memory::optimizer);
    s.second = make(s.optimizer_range.size(), dtype_of<master>, memory::optimizer);
    s.gradients = make(s.gradient_range.size(), dtype_of<gradient>, memory::gradients);
    Backend::zero(queue(), s.first);
    Backend::zero(queue(), s.second);
    Backend::zero(queue(), s.gradients);
    detail::initialise(s.flat, s.optimizer_range, ctx_.seed, s.master_weights.template as<master>());
    if (shares_master()) {
      s.weights = s.master_weights;
    } else {
      s.weights = make(s.weight_range.size(), dtype_of<compute>, memory::parameters);
      if (s.weight_range.begin == s.optimizer_range.begin && s.weight_range.end == s.optimizer_range.end)
        convert<master, compute>(s.master_weights, s.weights);
      else
        detail::initialise(s.flat, s.weight_range, ctx_.seed, s.weights.template as<compute>());
    }
    if (!config_.shards_parameters) point_at(s, s.weights);
  }

  void point_at(unit_state& u, const array& whole) {
    for (const flat_region& r : u.flat.regions) r.parameter->live->at.data = whole.template as<compute>() + r.begin;
  }
  void bring(int unit) {
    at(unit).gathering.wait();
    if (config_.shards_parameters)
      point_at(at(unit), gathered_.acquire(unit, at(unit).name, *group_, at(unit).weights));
  }
  void gather_again(int unit) override {
    unit_state& u = at(unit);
    if (u.gathered_again) return;
    bring(unit);
    u.gathered_again = true;
  }
  void ahead(int unit) {
    if (config_.shards_parameters && config_.prefetch > 0 && unit >= 0 && unit < static_cast<int>(units_.size()))
      gathered_.prefetch(unit, at(unit).name, *group_, at(unit).weights);
  }
  void leave(int unit) {
    if (!config_.shards_parameters || !gathered_.release(unit)) return;
    for (const flat_region& r : at(unit).flat.regions)
      r.parameter->live->at.data = nullptr;  // whatever is gathered next may lie there
  }

  // Zeros where no gradient came, in padding, and between the parameters.
  void close_region_gaps(unit_state& u, const array& whole) {
    auto* g = whole.template as<gradient>();
    std::int64_t end = 0;
    const auto clear = [&](std::int64_t from, std::int64_t to) {
      if (to > from) Backend::zero(queue(), array(g + from, dtype_of<gradient>, {1, {to - from}}));
    };
    for (const flat_region& r : u.flat.regions) {
      clear(end, r.begin);
      if (!r.parameter->slot->has_gradient)
        clear(r.begin, r.begin + r.count);
      else
        clear_padding(*r.parameter, g + r.begin);
      end = r.begin + r.count;
    }
    clear(end, u.flat.size);
  }

  void clear_padding(const parameter_record& p, gradient* g) {
    const shape valid = p.at.valid_part();
    if (valid == p.local) return;
    const array all(g, dtype_of<gradient>, p.local);
    const array cleared = detail::with_padding<Backend>(ctx_, all, valid);
    Backend::copy_bytes(queue(), cleared.data, g, all.bytes());
  }

  void post_reduce_scatter(unit_state& u, full_gradient& g) {
    close_region_gaps(u, g.whole);
    for (const flat_region& r : u.flat.regions) {
      r.parameter->slot->gradient = {};
      r.parameter->slot->has_gradient = false;
    }
    for (full_gradient& earlier : full_)  // the unit's last one, which this one adds to
      if (earlier.to == &u) complete(earlier);
    const std::int64_t share = u.gradient_range.size();
    const array travels = in_reduce_type(array(g.whole.data, dtype_of<gradient>, {1, {u.flat.size}}));
    const bool direct = std::is_same_v<gradient, reduce_type> && !u.has_gradient;
    g.sent = travels;
    g.received = direct ? u.gradients : make(share, dtype_of<reduce_type>, memory::buffers);
    g.to = &u;
    g.unit = -1;
    g.reduction = group_->comm.reduce_scatter(travels.data, g.received.data, share, dtype_of<reduce_type>,
                                              reduction::sum, {"gradients", {}, u.name});
  }
  void complete(full_gradient& g) {
    if (!g.to) return;
    g.reduction.wait();
    if (g.received.data != g.to->gradients.data)
      convert<reduce_type, gradient>(g.received, g.to->gradients, g.to->has_gradient);
    g.to->has_gradient = true;
    g.to = nullptr;
    g.sent = g.received = {};
  }

  // Whole gradients: summed on every rank, or each share only on the rank that will update it.
  void post_reduction(unit_state& u) {
    u.posted = true;
    u.staging = in_reduce_type(u.gradients);
    auto* g = u.staging.template as<reduce_type>();
    const collective_label label{"gradients", {}, u.name};
    u.reduction = config_.shards_optimizer
                      ? group_->comm.reduce_scatter(g, g + u.optimizer_range.begin, u.optimizer_range.size(),
                                                    dtype_of<reduce_type>, reduction::sum, label)
                      : group_->comm.all_reduce(g, g, u.flat.size, dtype_of<reduce_type>, reduction::sum, label);
  }
  array in_reduce_type(const array& g) {
    if constexpr (std::is_same_v<gradient, reduce_type>) return g;
    array out = make(g.elements(), dtype_of<reduce_type>, memory::buffers);
    convert<gradient, reduce_type>(g, out);
    return out;
  }

  // Sums pending on axes other than that of the storage (norms under sequence parallelism, everything over the outer
  // axis of `hybrid`): all such parameters in one all-reduce an axis.
  void finish_other_axes() {
    for (unit_state& u : units_) {
      if (u.staging && u.staging.data != u.gradients.data) convert<reduce_type, gradient>(u.staging, u.gradients);
      u.staging = {};
    }
    for (const axis_group& along : ctx_.axes()) {
      axis_group* group = along.axis == config_.axis ? nullptr : ctx_.group(along.axis);
      if (!group) continue;
      std::int64_t n = 0;
      each_pending(along.axis, [&](gradient*, std::int64_t count) { n += count; });
      if (n == 0) continue;
      array joined = make(n, dtype_of<gradient>, memory::buffers);
      auto* at = joined.template as<gradient>();
      each_pending(along.axis, [&](gradient* g, std::int64_t count) {
        Backend::copy_bytes(queue(), g, at, count * static_cast<std::int64_t>(sizeof(gradient)));
        at += count;
      });
      const array travels = in_reduce_type(joined);
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
    for (unit_state& u : units_)
      for (const flat_region& r : u.flat.regions) {
        const auto& pending = r.parameter->pending;
        if (std::find(pending.begin(), pending.end(), axis) == pending.end()) continue;
        const flat_range part = u.optimizer_range.overlap(r);
        if (part.size() > 0) f(u.gradient_at(part.begin), part.size());
      }
  }

  array whole_of(const array& share, std::int64_t size, const collective_label& label) {
    array out = make(size, share.type, memory::buffers);
    group_->comm.all_gather(share.data, out.data, share.bytes(), label).wait();
    return out;
  }

  context& ctx_;
  store_config config_;
  axis_group* group_;
  std::deque<unit_state> units_;
  gradient_norm_parts norm_parts_{ctx_};
  weight_buffers gathered_;
  full_gradient full_[2];
  unsigned turn_ = 0;
  int remaining_ = 0;
};

}  // namespace weft
