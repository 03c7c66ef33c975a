// Weights and gradients of a model's units, and what happens to them around a unit's use. Invariant: a unit's weights
// are there from before its forward or backward until after it, and its gradients go on their way when its backward
// ends.
#pragma once

#include <weft/parallel/unit_gradients.hpp>
#include <weft/parallel/unit_weights.hpp>

namespace weft::detail {

class unit_store : public unit_hooks {
 public:
  unit_store(const unit_store&) = delete;
  unit_store& operator=(const unit_store&) = delete;

  void before_forward(int unit, bool recorded) override {
    if (recorded) gradients_.recorded(unit);
    weights_.acquire(unit);
    weights_.prefetch(unit + 1, unit);
  }
  void after_forward(int unit) override { weights_.release(unit); }
  void before_backward(int unit, backward_part part) override {
    if (part != backward_part::weights) {
      weights_.acquire(unit);
      weights_.prefetch(unit - 1, unit);
    }
    if (part != backward_part::inputs) gradients_.begin_backward(unit);
  }
  void after_backward(int unit, backward_part part) override {
    end_backward(unit, part);
    if (part != backward_part::inputs) gradients_.end_backward(unit);
  }
  void abandon_backward(int unit, backward_part part) override {
    end_backward(unit, part);
    gradients_.abandon(unit);
  }

  /// What parameter_store says of it.
  WEFT_LINKED void each_stored(function_ref<void(const stored_parameter&)> f) {
    gradients_.require_finished("each_stored()");
    weights_.draw();
    each_place(f);
  }
  /// The same before initial weights are drawn, for what asks which parameters there are: their numbers may be none
  /// yet.
  WEFT_LINKED void each_place(function_ref<void(const stored_parameter&)> f) {
    gradients_.require_finished("each_stored()");
    weights_.each_region([&](std::size_t i, std::size_t b, stored_bucket& s, const flat_region& r) {
      const flat_range part = s.part_of(r);
      if (part.size() == 0) return;
      f(s.stored(static_cast<int>(i), r, part, s.key().trained ? gradients_.at(i, b, part) : local_array()));
    });
  }
  /// Calls f(parameter, scales) for every parameter that is stored in few bits.
  WEFT_LINKED void each_scales(function_ref<void(const parameter_record&, const local_array&)> f) {
    weights_.each_region([&](std::size_t, std::size_t, stored_bucket& s, const flat_region& r) {
      if (s.quantised) f(*r.parameter, s.scales_of(r));
    });
  }
  /// The types of what it keeps.
  const store_kernels& types() const { return kernels_; }

  std::uint64_t step_number() const override { return gradients_.step_number(); }
  std::string_view unit_name(int unit) const override { return weights_.name(static_cast<std::size_t>(unit)); }

 protected:
  unit_store(context& ctx, const store_kernels& kernels, parameter_registry& registry, const store_config& config)
      : ctx_(ctx),
        kernels_(kernels),
        weights_(ctx, kernels, registry, config),
        gradients_(ctx, kernels, weights_.size()) {}
  ~unit_store() = default;

  context& ctx_;
  const store_kernels& kernels_;
  unit_weights weights_;
  unit_gradients gradients_;

 private:
  void end_backward(int unit, backward_part part) {
    if (part == backward_part::weights)
      weights_.release_gathered_again(unit);
    else
      weights_.release(unit);
  }
};

}  // namespace weft::detail
