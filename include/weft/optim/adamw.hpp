// AdamW with decoupled weight decay (Loshchilov & Hutter 2019), and clipping. Invariant: one kernel reads and writes
// each array once.
#pragma once

#include <cmath>
#include <limits>

#include <weft/core/finite.hpp>
#include <weft/optim/update_tensor.hpp>

namespace weft {

struct adamw;
inline void check(const adamw&);

/// Configuration of AdamW. Clipping isn't part of it: see clip_factor.
struct adamw {
  static constexpr int moments = 2;
  static constexpr bool on_every_backend = true;
  static constexpr bool rounds_moments = true;  // where the precision keeps them in bf16
  static constexpr std::string_view name = "AdamW";

  double lr = 3e-4, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;

  friend bool operator==(const adamw&, const adamw&) = default;

  /// The numbers of step t (from 1) at a learning rate, for gradients to be multiplied by `grad_scale`. Throws
  /// weft::failure when one of them, or of the configuration's, has no meaning.
  WEFT_LINKED adamw_step at(std::int64_t t, double rate, const kernel_number& grad_scale = 1) const {
    check(*this);
    detail::require_step(name, {t, rate, grad_scale});
    const auto steps = static_cast<double>(t);
    return {rate,       beta1, beta2, eps, weight_decay, 1 - std::pow(beta1, steps), 1 - std::pow(beta2, steps),
            grad_scale, t};
  }
  std::vector<named_number> numbers() const {
    return {{"lr", lr}, {"beta1", beta1}, {"beta2", beta2}, {"eps", eps}, {"weight_decay", weight_decay}};
  }
  template <class Share>
  void update(const Share& s, const kernel_step& step) const {
    update(s, at(step.number, step.lr, step.grad_scale));
  }
  /// By the numbers of a step, whose own number is one where moments are rounded by it: parameter_store::step asks.
  template <class Share>
  static void update(const Share& s, const adamw_step& step) {
    if constexpr (std::is_same_v<typename Share::moment, typename Share::master>) {
      Share::backend::adamw(s.queue(), step, s.count, s.decaying, s.weight, s.first, s.second, s.gradient, s.working);
    } else {
      Share::backend::adamw(s.queue(), step, s.count, s.decaying, s.weight, s.first, s.second, s.gradient, s.working,
                            s.rounding.of_step(step.number));
    }
  }
};

/// Throws weft::failure when a number has no meaning.
inline void check(const adamw& a) {
  detail::require_rate(adamw::name, "lr", a.lr);
  detail::require_below_one(adamw::name, "beta1", a.beta1);
  detail::require_below_one(adamw::name, "beta2", a.beta2);
  constexpr double least = std::numeric_limits<float>::min();  // below, kernels in float divide by 0
  detail::require_number(adamw::name, "eps", a.eps, detail::is_finite(a.eps) && a.eps >= least,
                         "a finite number, at least 1.18e-38, the least that a float has in full");
  detail::require_rate(adamw::name, "weight_decay", a.weight_decay);
}

namespace detail {
/// Throws unless clip_norm is a number to clip by.
WEFT_LINKED void require_clip_norm(double clip_norm) {
  require(is_finite(clip_norm) && clip_norm >= 0, "clip_norm is ", clip_norm,
          "; it has to be a finite number, at least 0, which is no clipping");
}
/// clip_factor by a clip_norm that is one.
constexpr double factor_of_clipping(double norm, double clip_norm) {
  if (!is_finite(norm) || norm < 0) return std::numeric_limits<double>::quiet_NaN();
  return clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1.0;
}
}  // namespace detail

/// What gradients of this global norm (see gradient_norm) are multiplied by, so that it is clip_norm at most; 0: no
/// clipping. PyTorch's clip_grad_norm_ multiplies by clip_norm / (norm + 1e-6), which is smaller by the relative
/// difference 1e-6 / norm.
/// Throws weft::failure for a clip_norm below 0 or not finite. A norm that is infinite or not a number gives NaN, which
/// adamw_update refuses: a step without a meaning is skipped.
WEFT_LINKED double clip_factor(double norm, double clip_norm) {
  detail::require_clip_norm(clip_norm);
  return detail::factor_of_clipping(norm, clip_norm);
}

/// AdamW over a single tensor, for loops of one's own: `adamw_state state; adamw_update(w, w.grad(), state, {.lr =
/// 1e-2});`. Errors and placement: as optimizer_update, which this is.
using adamw_state = optimizer_state;
template <any_tensor W, any_tensor G>
void adamw_update(W& w, const G& gradient, adamw_state& state, const adamw& config, double factor = 1) {
  optimizer_update(w, gradient, state, config, factor);
}

}  // namespace weft
