// A loss that is computed in pieces along a dimension, each a function that runs again for its backward: of a head and
// cross-entropy that is a piece's logits at a time. Invariant: the sum and the count are those of the whole, added up
// piece by piece; what the function makes lives no longer than its piece.
#pragma once

#include <algorithm>

#include <weft/autograd/checkpoint.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/cross_entropy.hpp>
#include <weft/op/view.hpp>

namespace weft {
namespace detail {

/// A piece's loss, of which the sum is the checkpointed function's output. The count has no gradient and leaves by the
/// side, in the first run.
template <class F, class X, class Y, class Loss>
struct loss_piece : checkpointed {
  loss_piece(const F& what, const X& x, const Y& targets, Loss& out, context& ctx)
      : checkpointed(run, gradients_by<typename X::backend, typename X::element_type>,
                     gradients_by<typename sum::backend, typename sum::element_type>, ctx, untyped(x),
                     [](const op_cost&) { return false; }),
        f(what),
        to(targets),
        first(&out) {}

 private:
  using sum = decltype(Loss::sum);
  static value run(checkpointed& self, const value& x) {
    auto& piece = static_cast<loss_piece&>(self);
    const scoped_value<bool> now(x.ctx->in_piece, true);
    Loss l = piece.f(X(x), piece.to);
    if (Loss* const out = std::exchange(piece.first, nullptr)) out->count = detach(l.count);
    return untyped(l.sum);
  }

  F f;
  Y to;
  Loss* first;
};

template <class Loss, class F, class X, class Y>
Loss loss_of_piece(const F& f, const X& x, const Y& targets) {
  context& ctx = *untyped(x).ctx;
  if (!ctx.tape) return f(x, targets);
  if (ctx.replay) ctx.replay->mark_read(untyped(x));
  using function = loss_piece<F, X, Y, Loss>;
  Loss out;
  out.sum = decltype(out.sum)(record_checkpoint(
      untyped(x), std::allocate_shared<function>(pool_allocator<function>(&ctx.records), f, x, targets, out, ctx)));
  return out;
}

/// Of n elements in `chunks` pieces, where piece i begins: their lengths differ by one at most.
constexpr std::int64_t chunk_begin(std::int64_t n, std::int64_t chunks, std::int64_t i) {
  return n / chunks * i + std::min(i, n % chunks);
}

template <class... As>
sharded_over<As...> as_sharded(tag_list<As...>);

template <dimension D, class T>
constexpr bool can_be_cut() {
  using lacks = lacked<dims_of<T>, D>;
  static_assert(none<lacks>,
                "weft: a loss in chunks cuts its input and its targets along one dimension, and one of them lacks it: "
                "name one that both have, or take the loss at once (whole_loss)");
  using sharded = decltype(as_sharded(shard_axes<layout_of<T>, D>{}));
  static_assert(none<sharded>,
                "weft: a loss in chunks cuts a dimension that every rank has whole, and its input or its targets are "
                "sharded along it: all_gather<axis>(x) them first, or take the loss at once (whole_loss)");
  return none<lacks> && none<sharded>;
}

}  // namespace detail

/// f(x, targets), a loss{sum, count}, in `chunks` pieces along D, one after the other: sums and counts are added up,
/// and each piece runs again when its gradient is due, so that what f makes (logits) is there for one piece at a time.
/// Keeps x. D is whole on every rank in both; of fewer elements than chunks each is a piece. f is copied for each
/// piece, and does the same both times, as of checkpoint(f, x); its sum has to be one over D's elements, each by
/// itself. Nothing random: a piece's masks would be alike, so training_dropout is refused in it. Cost: f's forward
/// twice. Throws where x and targets have different extents along D.
///
///   loss_in_chunks<seq>(8, [&w](const auto& h, const auto& t) { return cross_entropy(contract<hidden>(h, w), t); }, x,
///                       targets)
template <dimension D, class F, any_tensor X, any_tensor Y>
auto loss_in_chunks(int chunks, const F& f, const X& x, const Y& targets) {
  if constexpr (detail::can_be_cut<D, X>() && detail::can_be_cut<D, Y>()) {
    using piece = decltype(slice<D>(x, 0, 1));
    using targets_of_piece = decltype(slice<D>(targets, 0, 1));
    using result =
        std::remove_cvref_t<decltype(f(std::declval<const piece&>(), std::declval<const targets_of_piece&>()))>;
    static_assert(detail::is_loss<result>,
                  "weft: loss_in_chunks<dim>(chunks, f, x, targets): f(x, targets) gives back loss{sum, count}, two "
                  "scalars, as cross_entropy does");
    require(chunks >= 1, "a loss is computed in at least 1 chunk, not ", chunks);
    const std::int64_t n = x.template global_extent<D>(), m = targets.template global_extent<D>();
    require(n == m, "a loss in chunks cuts ", D::name, ", of which its input has ", n, " and its targets ", m,
            ": give both the same extent");
    const std::int64_t pieces = std::clamp<std::int64_t>(n, 1, chunks);
    if constexpr (std::same_as<piece, X> && std::same_as<targets_of_piece, Y>)
      if (pieces == 1) return detail::loss_of_piece<result>(f, x, targets);
    result all;
    for (std::int64_t i = 0; i < pieces; ++i) {
      const std::int64_t begin = detail::chunk_begin(n, pieces, i),
                         count = detail::chunk_begin(n, pieces, i + 1) - begin;
      result one = detail::loss_of_piece<result>(f, slice<D>(x, begin, count), slice<D>(targets, begin, count));
      all = i == 0 ? std::move(one) : result{all.sum + one.sum, all.count + one.count};
    }
    return all;
  }
}

}  // namespace weft
