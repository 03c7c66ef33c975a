// The entry to the backward pass. Invariant: after it the tape is empty and every leaf that was reached has its
// gradient.
#pragma once

#include <weft/autograd/record.hpp>
#include <weft/core/refusal.hpp>
#include <weft/tensor/compare.hpp>

namespace weft {
namespace detail {

/// Puts `seed` where the backward of a loss begins. Throws when nothing recorded leads to it.
template <any_tensor L>
void seed_loss(const L& loss, double seed) {
  static_assert(dims_of<L>::ndim == 0, "weft: backward(loss) takes a scalar: sum or average it first");
  using replicated =
      typename axes_holding<replicated_over, layout_of<L>, holds::replicate, axes_of<layout_of<L>>>::type;
  static_assert(none<replicated>,
                "weft: backward(loss) takes a loss that is invariant or partial: a replicated one would count once per "
                "rank; where slices were gathered, gather them by convert<invariant<axis>>(x) in place of "
                "all_gather<axis>(x)");
  context& ctx = *untyped(loss).ctx;
  require_running_once(untyped(loss), "backward(loss)");
  require(ctx.tape,
          "backward(loss) while a no_grad lives, or in forward or vjp of a custom_gradient, under which nothing is "
          "recorded: let a no_grad end, in a block of its own, before the loss is computed");
  require(bool(untyped(loss).slot),
          "backward(loss): nothing that the loss was computed from asked for a gradient while recording");
  require_recorded("backward(loss)", untyped(loss));
  require(untyped(loss).slot->epoch == ctx.tape->epoch() || untyped(loss).slot->epoch == 0,
          "backward(loss): what the loss was computed from is no longer recorded: an earlier backward went through it "
          "or forgot it; add losses up and backpropagate their sum, or compute this one after that backward");
  using Backend = typename L::backend;
  using T = typename L::element_type;
  require(seed == 0 || static_cast<accumulate_t<T>>(T(seed)) != 0, "backward(loss, ", seed, "): ", name_of(dtype_of<T>),
          ", the loss's type, rounds this factor to 0; backward(cast<double>(loss), ", seed, ")");
  if (ctx.check) [[unlikely]] {
    ctx.check->each_axis([&](axis_group& along) {
      ctx.check->compare(along.comm, along.name, {"backward", "seeds"},
                         {{"its seed", seed}, {"the context's seed", static_cast<double>(ctx.seed)}});
    });
    compare_along<Backend>(untyped(loss), shape(), {"backward", "the loss"}, whole_axes<layout_of<L>>(ctx));
  }
  const local_array whole_seed = ctx.make(untyped(loss).held().type, untyped(loss).held().shape);
  Backend::fill(ctx.queue<Backend>(), whole_seed, seed);
  add_gradient<Backend, typename L::element_type>(ctx, untyped(loss), whole_seed);
}

}  // namespace detail

/// Carries d(loss) = `seed`, rounded to the loss's type (fp16 has none beyond 65504), back to every leaf that asked for
/// a gradient. The loss is a scalar, and invariant or partial on every axis: d(sum)/d(addend) is 1, so a pending loss
/// needs no all-reduce before it. Gradients add to those already there. Everything recorded is forgotten afterwards:
/// two losses with a common part are added up and backpropagated at once. Throws when nothing recorded leads to the
/// loss.
template <any_tensor L>
void backward(const L& loss, double seed = 1.0) {
  detail::seed_loss(loss, seed);
  untyped(loss).ctx->tape->backward(*untyped(loss).ctx);
}

}  // namespace weft
