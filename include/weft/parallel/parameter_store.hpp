// The parameter store: the memory of a model's parameters, gradients and optimizer state under a sharding policy, and
// when it moves. Invariant: between begin_step() and finish_gradients() a gradient is a sum over this rank's
// micro-batches; afterwards nothing is pending, and every element is held by the rank that will update it.
#pragma once

#include <weft/optim/adamw.hpp>
#include <weft/optim/by_shape.hpp>
#include <weft/parallel/compare_store.hpp>
#include <weft/parallel/gradient_norm.hpp>
#include <weft/parallel/unit_store.hpp>
#include <weft/parallel/update_buckets.hpp>

namespace weft {
namespace detail {

/// The registry, if a store can be made for it.
WEFT_LINKED parameter_registry& without_a_store(context& ctx, parameter_registry& registry) {
  for (const parameter_unit& u : registry.units())
    for (const parameter_record& p : u.parameters)
      require(p.live->source == nullptr,
              "the model has a parameter store already: keep one trainer or store at a time");
  const int stages = ctx.degree<pp>();
  require(stages == 1 || registry.lies_along(id_of<pp>), "every one of the ", stages,
          " stages along pp holds the whole model, so its loss would count once a stage: launch it with pp = 1, or "
          "derive the model from weft::decoder, which has its layers on stages (docs/own_model.md)");
  return registry;
}

}  // namespace detail

/// What it moves names the line that called the member function which asks for it, so all ranks call that on one line.
/// Weights that a unit's use gathers, and gradients that its backward sends off, are asked for by no line.
/// Source: ZeRO (Rajbhandari et al. 2020), FSDP (Zhao et al. 2023), and for the two reused buffers YaFSDP.
template <class Backend, class Precision>
class parameter_store final : public detail::unit_store {
 public:
  using backend = Backend;
  using compute = typename Precision::compute;
  using gradient = typename Precision::gradient;
  using master = typename Precision::master;

  /// Allocates everything that lasts. Initial weights are drawn when something is first read, by each rank its own:
  /// what was loaded before that isn't drawn. The registry has to outlive it. Throws when a trained parameter's
  /// gradient isn't pending over the data axis, since that is the sum that is finished here, and the ranks along it
  /// don't hold different parts of it (experts, say, which are then stored where they are); when the model has a store
  /// already, and when it is whole on each stage of a pipeline.
  parameter_store(context& ctx, parameter_registry& registry, store_config config, call_site at = call_site::here())
      : unit_store(ctx, kernels(), detail::without_a_store(ctx, registry), config), config_(config) {
    weights_.each_bucket([&](std::size_t i, std::size_t, bucket& s) {
      gradients_.add(static_cast<int>(i), s.flat, weights_.name(i), s.flat.kept(s.key().shards_gradients), s.updated);
      state_.fit(s);
    });
    gradients_.allocate_buffers();
    state_.allocate();
    weights_.each_region([&](std::size_t, std::size_t, bucket& s, const flat_region& r) {
      if (in_norm(s, r)) norm_parts_.expect(r.parameter->sharded, s.storage());
    });
    norm_parts_.agree(at);
  }
  parameter_store(const parameter_store&) = delete;
  parameter_store& operator=(const parameter_store&) = delete;

  /// Starts a step of so many backwards: gradients are empty. Throws where a parameter's tensor was assigned to.
  void begin_step(int micro_batches) {
    gradients_.rank(), weights_.begin_step();
    gradients_.begin_step(micro_batches);
  }
  /// Says that a micro-batch's backward has run. Throws when none has, and when begin_step() was told of fewer.
  void end_micro_batch() { gradients_.end_micro_batch(); }

  /// Waits for every reduction. Afterwards each rank holds finished sums for what it stores. Throws when a micro-batch
  /// of the step is still to come, and when it was called before: what is finished would be summed again.
  void finish_gradients(call_site at = call_site::here()) { gradients_.finish(at); }

  /// The norm of all gradients, each element counted once: which sums cross which axis follows from the parameters'
  /// types. Waits for the queue. Throws before finish_gradients().
  double gradient_norm(call_site at = call_site::here()) {
    return std::sqrt(detail::number_on_host<Backend>(queue(), squared_norm(at)));
  }
  /// The square of that, where kernels read it; until the next call of either.
  kernel_number squared_norm(call_site at = call_site::here()) {
    gradients_.require_finished("gradient_norm()");
    norm_parts_.clear();
    weights_.each_bucket([&](std::size_t i, std::size_t b, bucket& s) {
      if (!s.key().trained) return;
      const auto alike = [](const flat_region& x, const flat_region& y) {
        return x.parameter->counted == y.parameter->counted && x.parameter->sharded == y.parameter->sharded;
      };
      s.flat.each_run(s.updated, alike, [&](const flat_region& r, flat_range part) {
        if (!r.parameter->counted) return;
        const gradient* const g = gradients_.at(i, b, part).template as<gradient>();
        norm_parts_.add(part.size(), g, r.parameter->sharded, s.storage());
      });
    });
    return norm_parts_.total(at);
  }

  /// Updates master weights and what operators see of them by AdamW, weight decay for matrices alone; it uses the
  /// step's gradients up. Throws before finish_gradients(), again after it, where the store is for other moments, and
  /// where moments are in bf16 and the step has no number.
  void step(const adamw_step& step, call_site at = call_site::here()) {
    detail::require_moments(config_, adamw::moments);
    if constexpr (detail::rounds_moments<Precision>) detail::require_rounding_number(step.number);
    begin_update([&] { detail::compare_numbers(ctx_, step, factor_of(step)); });
    weights_.each_bucket([&](std::size_t i, std::size_t b, bucket& s) {
      updater(i, b, s, step.grad_scale, at).elements([&](const auto& share) { adamw::update(share, step); });
    });
    state_.end();
  }
  /// The same by another optimizer, for which the store was made: config_of<policy, optimizer>(). One of a user's own
  /// updates its share on the host (optimizer_policy); those of the library run on every backend, `by_shape` too.
  template <class Optimizer>
  void update(const Optimizer& rule, const kernel_step& step, call_site at = call_site::here()) {
    if constexpr (std::is_same_v<Optimizer, adamw>)
      this->step(rule.at(step.number, step.lr, step.grad_scale), at);
    else if constexpr (detail::ask_optimizer<Optimizer>() && any_optimizer<Optimizer>)
      update_by(rule, step, at);
  }

  /// Calls f(record, gradient, weights) for every parameter, gathered along the data axis: its gradient and master
  /// weights as local_share of the precision's types, row-major by record.local; number i is element
  /// record.at.global_index(i) of the whole, -1 in padding. The gradient is empty where it is frozen. On a device they
  /// are copies on the host, which end with the call. For tests and monitors: it moves whole units. Throws between
  /// begin_step() and finish_gradients().
  template <class F>
  void each_parameter(F&& f, call_site at = call_site::here()) {
    gradients_.require_finished("each_parameter()");
    if (ctx_.check) [[unlikely]]
      detail::compare_store(ctx_, *this, "each_parameter", false, detail::host_view<Backend>);
    weights_.draw();
    weights_.each_bucket([&](std::size_t i, std::size_t b, bucket& s) {
      const std::string_view unit = weights_.name(i);
      std::vector<std::byte> copies[2];  // on the host
      const collective_label label{"master weights", {}, unit, -1, at};
      local_array gradients, weights;
      if (s.key().trained) {
        gradients = s.gathered(ctx_, gradients_.at(i, b, s.updated), {"gradients", {}, unit, -1, at});
        weights = s.gathered(ctx_, s.master_weights, label);
      } else {
        weights = s.in_master_type(ctx_, s.numbers(ctx_, label));
      }
      weights = detail::host_view<Backend>(ctx_, weights, copies[0]);
      if (gradients) gradients = detail::host_view<Backend>(ctx_, gradients, copies[1]);
      for (const flat_region& r : s.flat.regions)
        f(static_cast<const parameter_record&>(*r.parameter), local_share<gradient>(gradients.part(r.begin, r.count)),
          local_share<master>(weights.part(r.begin, r.count)));
    });
  }

  /// Sets the weights: f(record) returns all of a parameter's numbers (a vector or span of them, row-major by
  /// record.global, or an optional: without them it stays as it is), of which each rank takes what it holds, for the
  /// optimizer and for operators at once. Moments stay as they are. Nothing moves between ranks. Throws between
  /// begin_step() and finish_gradients(), and where f returns another count of numbers than the parameter has elements.
  template <class F>
  void load_parameters(F&& f) {
    gradients_.require_finished("load_parameters()");
    detail::require_running_once(ctx_, "load_parameters()");
    weights_.require_unmerged("load_parameters()");
    weights_.invalidate();
    weights_.each_region([&](std::size_t, std::size_t, bucket& s, const flat_region& r) {
      s.gathering.wait(ctx_.order());
      detail::with_numbers(*r.parameter, f(static_cast<const parameter_record&>(*r.parameter)),
                           [&](const auto& numbers) {
                             ++r.live->version;
                             s.template load<Backend, Precision>(ctx_, r, numbers);
                           });
    });
  }

  /// Calls f(stored_parameter) for what this rank keeps of every parameter; moves nothing. What is written there
  /// reaches no operator before the next step. Throws between begin_step() and finish_gradients().
  void each_stored(function_ref<void(const stored_parameter&)> f) { unit_store::each_stored(f); }

  /// Calls f(stored_parameter) for what this rank keeps of every parameter that is stored in few bits, to write its
  /// codes, levels and scales; f returns whether it did. Throws as each_stored does.
  template <class F>
  void load_quantised(F&& f) {
    gradients_.require_finished("load_quantised()");
    detail::require_running_once(ctx_, "load_quantised()");
    weights_.require_unmerged("load_quantised()");
    weights_.invalidate();
    weights_.each_region([&](std::size_t i, std::size_t, bucket& s, const flat_region& r) {
      if (!s.quantised || !f(s.stored(static_cast<int>(i), r, s.part_of(r), {}))) return;
      ++r.live->version;
      s.was_given(r);
    });
  }

 private:
  using bucket = unit_weights::bucket;
  static constexpr const detail::store_kernels& kernels() { return detail::kernels_of_store<Backend, Precision>::all; }

  // For comparisons: a host's read, which one rank needs not.
  double factor_of(const auto& step) const {
    return ctx_.size() == 1 ? 0 : detail::number_on_host<Backend>(queue(), step.grad_scale);
  }
  auto& queue() const { return gradients_.rank().template queue<Backend>(); }
  static bool in_norm(const bucket& s, const flat_region& r) { return r.parameter->counted && s.key().trained; }
  template <class Optimizer>
  void update_by(const Optimizer& rule, const kernel_step& step, call_site at) {
    constexpr bool shaped = detail::is_by_shape<Optimizer>;
    if constexpr (requires { check(rule); }) check(rule);
    detail::require_step("the optimizer", step);
    if constexpr (shaped)
      detail::require_moments(config_, Optimizer::moments, true, Optimizer::matrix_moments);
    else
      detail::require_moments(config_, Optimizer::moments);
    begin_update([&] {
      std::vector<named_number> numbers;
      if constexpr (requires { rule.numbers(); }) numbers = rule.numbers();
      detail::compare_numbers(ctx_, step, factor_of(step), std::move(numbers));
    });
    detail::give_step<Backend, Optimizer>(ctx_, step, [&](const auto& given) {
      weights_.each_bucket([&](std::size_t i, std::size_t b, bucket& s) {
        auto one = updater(i, b, s, given.grad_scale, at);
        if constexpr (!shaped)
          one.by_rule(rule, given);
        else if (s.key().matrices)
          one.matrices(rule.matrices, rule.of(rule.matrices, given));
        else
          one.by_rule(rule.others, rule.of(rule.others, given));
      });
    });
    state_.end();
  }
  template <class Compare>
  void begin_update(Compare&& compare_numbers) {
    gradients_.use_up("step()");
    if (ctx_.check) [[unlikely]] {
      compare_numbers();
      detail::compare_store(ctx_, *this, "the optimizer's step", true, detail::host_view<Backend>);
    }
    weights_.invalidate();
    state_.begin();
  }
  auto updater(std::size_t i, std::size_t b, bucket& s, const kernel_number& grad_scale, call_site at) {
    gradient* const own = s.key().trained ? gradients_.at(i, b, s.updated).template as<gradient>() : nullptr;
    return detail::bucket_update<Backend, Precision>{ctx_, s, weights_.name(i), own, grad_scale, at, state_};
  }

  store_config config_;
  gradient_norm_parts<Backend> norm_parts_{ctx_};
  detail::staged_state<Backend> state_{ctx_};
};

}  // namespace weft
