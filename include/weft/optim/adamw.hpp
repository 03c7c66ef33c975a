// AdamW with decoupled weight decay (Loshchilov & Hutter 2019). Invariant: it takes only gradients with nothing
// pending.
#pragma once

#include <cmath>

#include <weft/backend/concept.hpp>
#include <weft/comm/context.hpp>
#include <weft/core/finite.hpp>

namespace weft {

/// Configuration of AdamW. clip_norm: gradients are multiplied by clip_norm / norm where their global norm is above it;
/// 0 turns that off. PyTorch's clip_grad_norm_ multiplies by clip_norm / (norm + 1e-6), which is smaller by the
/// relative difference 1e-6 / norm.
struct adamw {
  double lr = 3e-4, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1, clip_norm = 1.0;

  friend bool operator==(const adamw&, const adamw&) = default;

  /// The numbers of step t (from 1) at a learning rate, for gradients to be multiplied by `grad_scale`.
  adamw_step at(std::int64_t t, double rate, double grad_scale = 1) const {
    const auto steps = static_cast<double>(t);
    return {rate, beta1, beta2, eps, weight_decay, 1 - std::pow(beta1, steps), 1 - std::pow(beta2, steps), grad_scale};
  }
};

/// Throws weft::error when a number has no meaning.
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
  number("clip_norm", a.clip_norm, a.clip_norm >= 0, "above 0, or 0 for no clipping");
}

/// AdamW over a single tensor, for loops of one's own: `adamw_state state; adamw_update(w, w.grad(), state, {.lr =
/// 1e-2});`
struct adamw_state {
  array first, second;
  int steps = 0;
};

/// Updates w in place on every rank that holds it. The gradient's placement is w's own: a pending sum is refused, since
/// each rank would then step by its own addend.
template <any_tensor W, any_tensor G>
void adamw_update(W& w, const G& gradient, adamw_state& state, const adamw& config) {
  static_assert(!has_partial<layout_of<G>>,
                "weft: an optimizer takes gradients with nothing pending: all_reduce<axis> or reduce_scatter<dim, "
                "axis> it first");
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
  using Backend = typename W::backend;
  if constexpr (!has_partial<layout_of<G>> && cut_alike && std::same_as<T, typename G::element_type>) {
    check(config);
    context& ctx = *w.ctx;
    require(w.local_elements() == gradient.local_elements(), "the gradient has ", gradient.local_elements(),
            " elements on this rank, the tensor ", w.local_elements());
    auto& queue = ctx.template queue<Backend>();
    if (!state.first) {
      state.first = ctx.make(dtype_of<T>, w.data.shape, memory::optimizer);
      state.second = ctx.make(dtype_of<T>, w.data.shape, memory::optimizer);
      Backend::zero(queue, state.first);
      Backend::zero(queue, state.second);
    }
    Backend::adamw(queue, config.at(++state.steps, config.lr), w.local_elements(), w.held().template as<T>(),
                   state.first.template as<T>(), state.second.template as<T>(),
                   static_cast<const T*>(gradient.held().template as<T>()), static_cast<T*>(nullptr));
  }
}

}  // namespace weft
