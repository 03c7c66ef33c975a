// The parameter store: the memory of a model's parameters, gradients and optimizer state under a sharding policy, and
// when it moves. Invariant: between begin_step() and finish_gradients() a gradient is a sum over this rank's
// micro-batches; afterwards nothing is pending, and every element is held by the rank that will update it.
#pragma once

#include <weft/parallel/compare_store.hpp>
#include <weft/parallel/gradient_norm.hpp>
#include <weft/parallel/unit_gradients.hpp>
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
  /// here, and when the model has a store already.
  parameter_store(context& ctx, parameter_registry& registry, store_config config)
      : ctx_(ctx), config_(resolved(ctx, config)), group_(ctx.group(config.axis)), gradients_(ctx, config_) {
    for (const parameter_unit& u : registry.units())
      for (const parameter_record& p : u.parameters) check(p);
    std::int64_t largest = 0;
    for (parameter_unit& u : registry.units()) {
      unit_state& s = units_.emplace_back();
      s.flat = flat_unit(u, parts());
      s.name = u.name;
      largest = std::max(largest, s.flat.size);
      allocate(s);
    }
    if (config_.shards_parameters) gathered_.allocate(ctx, config_.prefetch + 1, largest, dtype_of<compute>);
    gradients_.allocate_buffers(largest);
    for (unit_state& u : units_)
      for (const flat_region& r : u.flat.regions) r.live->source = this;
  }
  ~parameter_store() {
    for (unit_state& u : units_)
      for (const flat_region& r : u.flat.regions)
        if (r.live->source == this) r.live->source = nullptr, r.live->at.data = nullptr;
  }
  parameter_store(const parameter_store&) = delete;
  parameter_store& operator=(const parameter_store&) = delete;

  /// Starts a step: gradients are empty. micro_batches: how many backward passes will add to them.
  void begin_step(int micro_batches) {
    for (int u = 0; u < static_cast<int>(units_.size()); ++u)
      while (at(u).users > 0) release(u);  // what an error has left
    gradients_.begin_step(micro_batches);
  }
  /// Says that a micro-batch's backward has run. Throws when begin_step() was told of fewer.
  void end_micro_batch() { gradients_.end_micro_batch(); }

  /// Waits for every reduction. Afterwards each rank holds finished sums for what it stores. Throws when a micro-batch
  /// of the step is still to come, and when it was called before: what is finished would be summed again.
  void finish_gradients() { gradients_.finish(); }

  /// The norm of all gradients, each element counted once: which sums cross which axis follows from the parameters'
  /// types. Throws before finish_gradients().
  double gradient_norm() {
    gradients_.require_finished("gradient_norm()");
    norm_parts_.clear();
    for (std::size_t i = 0; i < units_.size(); ++i)
      for (const flat_region& r : units_[i].flat.regions) {
        if (!r.parameter->counted) continue;
        const flat_range part = units_[i].optimizer_range.overlap(r);
        const double squares = Backend::sum_of_squares(queue(), part.size(), gradient_at(i, part.begin));
        norm_parts_.add(squares, r.parameter->sharded, config_.shards_optimizer ? config_.axis : nullptr);
      }
    return std::sqrt(norm_parts_.total());
  }

  /// Updates master weights and what operators see of them. weight_decay applies to matrices, not to vectors. Throws
  /// before finish_gradients(), and where the store was made for an optimizer with fewer moments.
  void step(const adamw_step& step) {
    require(config_.moments == 2, "AdamW keeps 2 moments, and this store was made for ", config_.moments,
            "; leave store_config's moments at 2");
    begin_update(step);
    each_update([&](std::size_t i, const flat_region& r, flat_range part) {
      unit_state& u = units_[i];
      adamw_step own = step;
      if (!r.parameter->decays) own.weight_decay = 0;
      const std::int64_t o = part.begin - u.optimizer_range.begin;
      compute* working =
          shares_master() ? nullptr : u.weights.template as<compute>() + (part.begin - u.weight_range.begin);
      Backend::adamw(queue(), own, part.size(), u.master_weights.template as<master>() + o,
                     u.first.template as<master>() + o, u.second.template as<master>() + o,
                     static_cast<const gradient*>(gradient_at(i, part.begin)), working);
    });
  }
  /// The same by an optimizer of one's own, for which the store was made (store_config's moments). Each rank calls its
  /// update(parameter_share, step) for what it stores of every parameter. On the host's backend.
  template <optimizer_policy Optimizer>
  void update(const Optimizer& rule, const optimizer_step& step) {
    static_assert(Optimizer::moments >= 0 && Optimizer::moments <= 2,
                  "weft: an optimizer keeps 0, 1 or 2 moments for each element");
    require(config_.moments == Optimizer::moments, "the optimizer keeps ", int(Optimizer::moments),
            " moments, and this store was made for ", config_.moments, "; give its number to store_config's moments");
    begin_update(step);
    each_update([&](std::size_t i, const flat_region& r, flat_range part) {
      unit_state& u = units_[i];
      const auto n = static_cast<std::size_t>(part.size());
      const std::int64_t o = part.begin - u.optimizer_range.begin;
      const auto kept = [&](const local_array& a) {
        return a ? std::span<master>(a.template as<master>() + o, n) : std::span<master>();
      };
      parameter_share<master, gradient> share{r.parameter->name, r.parameter->decays, kept(u.master_weights),
                                              std::span<const gradient>(gradient_at(i, part.begin), n),
                                              std::array<std::span<master>, 2>{kept(u.first), kept(u.second)}};
      rule.update(share, step);
      const shape size{1, {part.size()}};
      if (!shares_master())
        convert<master, compute>(local_array(share.weight.data(), dtype_of<master>, size),
                                 local_array(u.weights.template as<compute>() + (part.begin - u.weight_range.begin),
                                             dtype_of<compute>, size));
    });
  }

  /// Calls f(record, local gradient, local weights) for every parameter, gathered along the data axis. For tests,
  /// monitors and saving: it moves whole units. Throws between begin_step() and finish_gradients(), as each_stored.
  template <class F>
  void each_parameter(F&& f) {
    gradients_.require_finished("each_parameter()");
    if (ctx_.check) [[unlikely]]
      detail::compare_store<Backend>(ctx_, *this, "each_parameter", false);
    for (std::size_t i = 0; i < units_.size(); ++i) {
      unit_state& u = units_[i];
      const flat_range mine = u.optimizer_range;
      local_array all_gradients(gradient_at(i, mine.begin), dtype_of<gradient>, {1, {mine.size()}});
      local_array all_weights = u.master_weights;
      if (config_.shards_optimizer) {
        all_gradients = whole_of(all_gradients, u.flat.size, collective_label{"gradients", {}, u.name});
        all_weights = whole_of(u.master_weights, u.flat.size, collective_label{"master weights", {}, u.name});
      }
      for (const flat_region& r : u.flat.regions)
        f(static_cast<const parameter_record&>(*r.parameter),
          static_cast<const gradient*>(all_gradients.template as<gradient>() + r.begin),
          static_cast<const master*>(all_weights.template as<master>() + r.begin));
    }
  }

  /// Sets the weights: f(record) returns all of a parameter's numbers (a vector or span of them, row-major by
  /// record.global), of which each rank takes what it holds, for the optimizer and for operators at once. Moments stay
  /// as they are. On the host's backend; nothing moves between ranks. Throws weft::failure between begin_step() and
  /// finish_gradients(), and where f returns another count of numbers than the parameter has elements.
  template <class F>
  void load_parameters(F&& f) {
    gradients_.require_finished("load_parameters()");
    gathered_.invalidate();
    for (unit_state& u : units_) {
      u.gathering.wait();
      for (const flat_region& r : u.flat.regions) {
        const auto numbers = f(static_cast<const parameter_record&>(*r.parameter));
        const std::int64_t count = static_cast<std::int64_t>(numbers.size()), wanted = r.parameter->global.elements();
        require(count == wanted, "parameter ", r.parameter->name, " has ", wanted, " elements, and ", count,
                " numbers were given for it");
        ++r.live->version;
        detail::load_region(r, u.optimizer_range, numbers, u.master_weights.template as<master>());
        if (!shares_master())
          detail::load_region<compute, master>(r, u.weight_range, numbers, u.weights.template as<compute>());
      }
    }
  }

  /// Calls f(stored_parameter) for what this rank keeps of every parameter. Throws between begin_step() and
  /// finish_gradients(). For monitors: it moves nothing, and what is written there reaches no operator before the next
  /// step (load_parameters sets weights).
  template <class F>
  void each_stored(F&& f) {
    gradients_.require_finished("each_stored()");
    for (std::size_t i = 0; i < units_.size(); ++i) {
      unit_state& u = units_[i];
      for (const flat_region& r : u.flat.regions) {
        const flat_range part = u.optimizer_range.overlap(r);
        if (part.size() == 0) continue;
        const std::int64_t o = part.begin - u.optimizer_range.begin;
        const shape size{1, {part.size()}};
        const auto state = [&](const local_array& a) {
          return a ? local_array(a.template as<master>() + o, dtype_of<master>, size) : local_array();
        };
        f(stored_parameter{static_cast<int>(i), *r.parameter, config_.shards_optimizer ? config_.axis : nullptr,
                           part.begin - r.begin, state(u.master_weights),
                           local_array(gradient_at(i, part.begin), dtype_of<gradient>, size), state(u.first),
                           state(u.second)});
      }
    }
  }

  void before_forward(int unit, bool recorded) override {
    if (recorded) gradients_.recorded(unit);
    acquire(unit);
    prefetch(unit + 1);
  }
  void after_forward(int unit) override { release(unit); }
  void before_backward(int unit, backward_part part) override {
    if (part != backward_part::weights) {
      acquire(unit);
      prefetch(unit - 1);
    }
    if (part != backward_part::inputs) gradients_.begin_backward(unit);
  }
  void after_backward(int unit, backward_part part) override {
    if (part != backward_part::weights || std::exchange(at(unit).gathered_again, false)) release(unit);
    if (part != backward_part::inputs) gradients_.end_backward(unit);
  }
  void abandon_backward(int unit, backward_part part) override {
    if (part != backward_part::weights || std::exchange(at(unit).gathered_again, false)) release(unit);
    gradients_.abandon(unit);
  }

  std::uint64_t step_number() const override { return gradients_.step_number(); }
  std::string_view unit_name(int unit) const override { return units_[static_cast<std::size_t>(unit)].name; }

 private:
  struct unit_state {
    std::string_view name;
    flat_unit flat;
    flat_range weight_range, optimizer_range;
    local_array weights, master_weights, first, second;
    request gathering;
    int users = 0;                // forwards and backwards that it is in
    bool gathered_again = false;  // for entries that read weights when these get their gradients
  };

  auto& queue() { return ctx_.queue<Backend>(); }
  unit_state& at(int unit) { return units_[static_cast<std::size_t>(unit)]; }
  gradient* gradient_at(std::size_t unit, std::int64_t flat_index) const {
    return gradients_.at(static_cast<int>(unit), flat_index);
  }
  int parts() const { return group_ ? group_->degree : 1; }
  // On an axis of one rank nothing is sharded.
  static store_config resolved(context& ctx, store_config c) {
    if (!ctx.group(c.axis)) c.shards_parameters = c.shards_gradients = c.shards_optimizer = false;
    return c;
  }
  local_array make(std::int64_t n, dtype type, memory category) { return ctx_.make(type, {1, {n}}, category); }
  template <class From, class To>
  void convert(const local_array& from, const local_array& to, bool add = false) {
    detail::add_converted<Backend, To, From>(ctx_, from, to, add);
  }
  // Where weights and master weights are the same numbers, they are the same memory.
  bool shares_master() const {
    return std::is_same_v<compute, master> && config_.shards_parameters == config_.shards_optimizer;
  }

  template <class Step>
  void begin_update(const Step& step) {
    gradients_.require_finished("step()");
    if (ctx_.check) [[unlikely]] {
      detail::compare_numbers(ctx_, step);
      detail::compare_store<Backend>(ctx_, *this, "the optimizer's step", true);
    }
    gathered_.invalidate();
  }
  // f(unit, region, part) for what this rank updates; then the new weights are on their way to who reads them.
  template <class F>
  void each_update(F&& f) {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      unit_state& u = units_[i];
      u.gathering.wait();
      for (const flat_region& r : u.flat.regions) {
        ++r.live->version;
        if (const flat_range part = u.optimizer_range.overlap(r); part.size() > 0) f(i, r, part);
      }
      if (config_.shards_optimizer && !config_.shards_parameters) {
        auto* all = u.weights.template as<compute>();
        const std::int64_t bytes = u.optimizer_range.size() * static_cast<std::int64_t>(sizeof(compute));
        u.gathering =
            group_->comm.all_gather(all + u.optimizer_range.begin, all, bytes,
                                    collective_label{"weights", {}, u.name});  // awaited by the unit's next use
      }
    }
  }

  void check(const parameter_record& p) const {
    require(
        !group_ || std::find(p.pending.begin(), p.pending.end(), config_.axis) != p.pending.end(),
        "the gradient of parameter ", p.name, " is not left pending over ", std::string(group_ ? group_->name : ""),
        ", the sharding policy's axis, so summing it there would be wrong; declare it as weight<strategy, dims<...>>");
    require(p.live->source == nullptr, "the model has a parameter store already: keep one trainer or store at a time");
  }

  void allocate(unit_state& s) {
    const flat_range share = s.flat.share(group_ ? group_->index : 0, parts()), all = s.flat.everything();
    s.weight_range = config_.shards_parameters ? share : all;
    s.optimizer_range = config_.shards_optimizer ? share : all;
    s.master_weights =
        make(s.optimizer_range.size(), dtype_of<master>, shares_master() ? memory::parameters : memory::optimizer);
    if (config_.moments > 0) s.first = make(s.optimizer_range.size(), dtype_of<master>, memory::optimizer);
    if (config_.moments > 1) s.second = make(s.optimizer_range.size(), dtype_of<master>, memory::optimizer);
    gradients_.add(s.flat, s.name, config_.shards_gradients ? share : all, s.optimizer_range);
    for (const local_array* moment : {&s.first, &s.second})
      if (*moment) Backend::zero(queue(), *moment);
    detail::initialise(s.flat, s.optimizer_range, ctx_.seed, s.master_weights.template as<master>());
    if (shares_master()) {
      s.weights = s.master_weights;
      return;
    }
    s.weights = make(s.weight_range.size(), dtype_of<compute>, memory::parameters);
    if (s.weight_range.begin == s.optimizer_range.begin && s.weight_range.end == s.optimizer_range.end)
      convert<master, compute>(s.master_weights, s.weights);
    else
      detail::initialise(s.flat, s.weight_range, ctx_.seed, s.weights.template as<compute>());
  }

  // Weights can be read exactly while their unit is in use: what is gathered next may lie there, or a step's new ones
  // may still be on their way.
  void acquire(int unit) {
    unit_state& u = at(unit);
    if (u.users++ > 0) return;
    u.gathering.wait();
    const local_array& whole =
        config_.shards_parameters ? gathered_.acquire(unit, u.name, *group_, u.weights) : u.weights;
    for (const flat_region& r : u.flat.regions) r.live->at.data = whole.template as<compute>() + r.begin;
  }
  void release(int unit) {
    unit_state& u = at(unit);
    if (--u.users > 0) return;
    if (config_.shards_parameters) gathered_.release(unit);
    for (const flat_region& r : u.flat.regions) r.live->at.data = nullptr;
  }
  void gather_again(int unit) override {
    if (!std::exchange(at(unit).gathered_again, true)) acquire(unit);
  }
  void prefetch(int unit) {
    if (config_.shards_parameters && config_.prefetch > 0 && unit >= 0 && unit < static_cast<int>(units_.size()))
      gathered_.prefetch(unit, at(unit).name, *group_, at(unit).weights);
  }

  local_array whole_of(const local_array& share, std::int64_t size, const collective_label& label) {
    local_array out = make(size, share.type, memory::buffers);
    group_->comm.all_gather(share.data, out.data, share.bytes(), label).wait();
    return out;
  }

  context& ctx_;
  store_config config_;
  axis_group* group_;
  std::deque<unit_state> units_;
  unit_gradients<Backend, Precision> gradients_;
  gradient_norm_parts norm_parts_{ctx_};
  weight_buffers gathered_;
};

}  // namespace weft
