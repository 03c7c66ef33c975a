// AdamW with decoupled weight decay (Loshchilov & Hutter 2019). Invariant: neither a weight nor its gradient has a sum
// pending, and a weight's state is used for no other.
#pragma once

#include <cmath>
#include <limits>

#include <weft/backend/concept.hpp>
#include <weft/comm/compare.hpp>
#include <weft/core/finite.hpp>
#include <weft/core/refusal.hpp>
#include <weft/op/placed.hpp>

namespace weft {

/// Configuration of AdamW. Clipping isn't part of it: see clip_factor.
struct adamw {
  double lr = 3e-4, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;

  friend bool operator==(const adamw&, const adamw&) = default;

  /// The numbers of step t (from 1) at a learning rate, for gradients to be multiplied by `grad_scale`. Throws
  /// weft::failure when one of them has no meaning.
  adamw_step at(std::int64_t t, double rate, double grad_scale = 1) const {
    using detail::is_finite;
    require(t >= 1, "AdamW's steps count from 1, not from ", t);
    require(is_finite(rate) && rate >= 0, "AdamW's lr is ", rate, "; it has to be a finite number, at least 0");
    require(is_finite(grad_scale), "gradients are to be multiplied by ", grad_scale,
            ", which no weight survives: was the loss taken over any token?");
    const auto steps = static_cast<double>(t);
    return {rate, beta1, beta2, eps, weight_decay, 1 - std::pow(beta1, steps), 1 - std::pow(beta2, steps), grad_scale};
  }
};

/// Throws weft::failure when a number has no meaning.
inline void check(const adamw& a) {
  const auto number = [](const char* name, double x, bool good, const char* range) {
    require(good, "AdamW's ", name, " is ", x, "; it has to be ", range);  // NaN is never good
  };
  using detail::is_finite;
  number("lr", a.lr, is_finite(a.lr) && a.lr >= 0, "a finite number, at least 0");
  number("beta1", a.beta1, a.beta1 >= 0 && a.beta1 < 1, "at least 0 and below 1");
  number("beta2", a.beta2, a.beta2 >= 0 && a.beta2 < 1, "at least 0 and below 1");
  number("eps", a.eps, is_finite(a.eps) && a.eps > 0, "a finite number above 0");
  number("weight_decay", a.weight_decay, is_finite(a.weight_decay) && a.weight_decay >= 0,
         "a finite number, at least 0");
}

/// What gradients of this global norm (see gradient_norm) are multiplied by, so that it is clip_norm at most; 0: no
/// clipping. PyTorch's clip_grad_norm_ multiplies by clip_norm / (norm + 1e-6), which is smaller by the relative
/// difference 1e-6 / norm.
/// Throws weft::failure for a clip_norm below 0 or not finite. A norm that is infinite or not a number gives NaN, which
/// adamw_update refuses: a step without a meaning is skipped.
inline double clip_factor(double norm, double clip_norm) {
  require(detail::is_finite(clip_norm) && clip_norm >= 0, "clip_norm is ", clip_norm,
          "; it has to be a finite number, at least 0, which is no clipping");
  if (!detail::is_finite(norm) || norm < 0) return std::numeric_limits<double>::quiet_NaN();
  return clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1.0;
}

/// AdamW over a single tensor, for loops of one's own: `adamw_state state; adamw_update(w, w.grad(), state, {.lr =
/// 1e-2});`. It belongs to the weight of its first update. The moments are double for a double weight, else float; for
/// a 16-bit weight there are master weights in float too, from which the weight is rounded at each step.
struct adamw_state {
  local_array weight, first, second, master;
  int steps = 0;
  context_ref ctx = {};  // the weight's: another launch may have its memory at the same addresses
};

namespace detail {

/// What an update takes to be the same on every rank: the weight and its gradient where they are whole, its numbers
/// everywhere.
template <any_tensor W, any_tensor G>
[[gnu::cold, gnu::noinline]] void compare_update(const W& w, const G& gradient, const adamw_state& state,
                                                 const adamw& config, double factor) {
  context& ctx = *w.ctx;
  ctx.check->each_axis([&](axis_group& along) {
    ctx.check->compare(along.comm, along.name, {"adamw_update", "numbers"},
                       {{"lr", config.lr},
                        {"beta1", config.beta1},
                        {"beta2", config.beta2},
                        {"eps", config.eps},
                        {"weight_decay", config.weight_decay},
                        {"the gradient's factor", factor},
                        {"the number of steps", static_cast<double>(state.steps)}});
  });
  compare_along<typename W::backend>(w, valid_part(w), {"adamw_update", dims_text<dims_of<W>>()},
                                     whole_axes<layout_of<W>>(ctx));
  const std::string of_gradient = text("the gradient of ", dims_text<dims_of<W>>());
  compare_along<typename W::backend>(gradient, valid_part(gradient), {"adamw_update", of_gradient},
                                     whole_axes<layout_of<G>>(ctx));
}

}  // namespace detail

/// Updates w in place on every rank that holds it, by the gradient times `factor` (clip_factor's, the inverse of a loss
/// scale). Placement: w's own, for the gradient too; a pending sum is refused in both, since each rank would step by
/// its own addend, or add the whole step to its own. Throws weft::failure where state is another weight's, or the
/// gradient another rank's or of other sizes.
template <any_tensor W, any_tensor G>
void adamw_update(W& w, const G& gradient, adamw_state& state, const adamw& config, double factor = 1) {
  static_assert(!std::is_const_v<W>, "weft: an optimizer changes the weight, and this one is const");
  static_assert(floating<typename W::element_type>,
                "weft: an optimizer moves a weight by fractions: its element type is float, double, bf16 or fp16");
  static_assert(detail::none<pending_in<layout_of<W>>>,
                "weft: an optimizer's weight is no pending sum, which would take the whole step on every rank: train "
                "the tensor that it was converted from, or all_reduce<axis> it once");
  static_assert(detail::none<pending_in<layout_of<G>>>,
                "weft: an optimizer takes gradients with nothing pending: all_reduce<axis> or reduce_scatter<dim, "
                "axis> it first");
  static_assert(std::same_as<typename W::backend, typename G::backend>,
                "weft: the gradient lives on another backend than the weight");
  static_assert(std::same_as<dims_of<W>, dims_of<G>>, "weft: the gradient has other dimensions than the tensor");
  static_assert(std::same_as<typename W::element_type, typename G::element_type>,
                "weft: the gradient has another element type; cast<T>(x) it");
  constexpr bool cut_alike = []<class... Es>(dims<Es...>) {
    return (std::same_as<shard_axes<layout_of<W>, tag_of<Es>>, shard_axes<layout_of<G>, tag_of<Es>>> && ...);
  }(dims_of<W>{});
  static_assert(
      cut_alike,
      "weft: the gradient is sharded in another way than the tensor: split<dim, axis> or all_gather<axis> it first");
  using T = typename W::element_type;
  if constexpr (floating<T> && !has_partial<layout_of<W>> && !has_partial<layout_of<G>> && cut_alike &&
                std::same_as<T, typename G::element_type>) {
    using Backend = typename W::backend;
    using M = accumulate_t<T>;
    check(config);
    require(detail::is_finite(factor), "AdamW's gradient is multiplied by ", factor, "; the factor has to be finite");
    require(w.ctx && w.ctx == gradient.ctx, "the weight and its gradient are tensors of two ranks, or were never made");
    require(w.whole == gradient.whole && w.sizes() == gradient.sizes(), "the gradient has ", gradient.whole.elements(),
            " elements, ", gradient.local_elements(), " on this rank, and the weight ", w.whole.elements(), " and ",
            w.local_elements(), ": it is the gradient of another tensor");
    context& ctx = *w.ctx;
    const local_array& held = w.held();
    if (ctx.check) [[unlikely]]
      detail::compare_update(w, gradient, state, config, factor);
    auto& queue = ctx.template queue<Backend>();
    if (!state.first) {
      state.weight = held;
      state.ctx = w.ctx;
      for (local_array* moment : {&state.first, &state.second}) {
        *moment = ctx.make(dtype_of<M>, held.shape, memory::optimizer);
        Backend::zero(queue, *moment);
      }
      if constexpr (!std::same_as<M, T>) {
        state.master = ctx.make(dtype_of<M>, held.shape, memory::optimizer);
        Backend::convert(queue, held.elements(), held.template as<T>(), state.master.template as<M>(), false);
      }
    }
    require(state.ctx == w.ctx && state.weight.data == held.data && state.weight.shape == held.shape,
            "this adamw_state belongs to another weight: give every weight a state of its own, and a weight that is "
            "made anew a new one");
    T* working = held.template as<T>();
    M* master = nullptr;
    if constexpr (std::same_as<M, T>)
      master = std::exchange(working, nullptr);
    else
      master = state.master.template as<M>();
    w.data.buffer.written();
    Backend::adamw(queue, config.at(++state.steps, config.lr, factor), held.elements(), master,
                   state.first.template as<M>(), state.second.template as<M>(),
                   static_cast<const T*>(gradient.held().template as<T>()), working);
  }
}

}  // namespace weft
