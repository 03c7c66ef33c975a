// The global gradient norm from placements. Invariant: a parameter's squares are summed over an axis exactly when the
// ranks along it hold different parts of it; where they hold the same, they count once.
#pragma once

#include <cmath>

#include <weft/core/refusal.hpp>
#include <weft/nn/unit_observer.hpp>
#include <weft/op/placed.hpp>

namespace weft {

/// Squares are added parameter by parameter, then finished together.
class gradient_norm_parts {
 public:
  explicit gradient_norm_parts(context& ctx) : ctx_(ctx) { clear(); }

  /// Starts anew.
  void clear() {
    squares_.assign(std::size_t(1) << ctx_.axes().size(), 0);
    axes_ = 0;
  }

  /// Adds this rank's sum of squares of one parameter. `sharded`: the axes its type is sharded over; `stored_over`: one
  /// more, over which its storage is, or null.
  void add(double squares, const std::vector<axis_id>& sharded, axis_id stored_over) {
    std::size_t key = 0, bit = 1;
    for (const axis_group& g : ctx_.axes()) {
      if (g.cuts(sharded, stored_over)) key |= bit;
      bit *= 2;
    }
    squares_[key] += squares;
    axes_ |= key;
  }

  /// Sum over all parameters, each finished over its axes. The same on every rank. Ranks of different stages may have
  /// added different parameters, or none; those of one stage, the same ones. Cost: an all-reduce of 2^axes numbers for
  /// each axis that any rank's parameter is sharded over; the first time one more, which finds out which those are.
  double total() {
    agree_on_axes();
    sums_.resize(squares_.size());
    std::size_t bit = 1;
    for (const axis_group& g : ctx_.axes()) {
      axis_group* group = agreed_ & bit ? ctx_.group(g.axis) : nullptr;
      if (group) {
        group->comm
            .all_reduce(squares_.data(), sums_.data(), static_cast<std::int64_t>(sums_.size()), dtype::f64,
                        reduction::sum, {"gradient norm"})
            .wait();
        for (std::size_t key = 0; key < sums_.size(); ++key)
          if (key & bit) squares_[key] = sums_[key];
      }
      bit *= 2;
    }
    double all = 0;
    for (const double s : squares_) all += s;
    return all;
  }

 private:
  // Which axes take part has to be the same on every rank, and a stage knows its own parameters only.
  void agree_on_axes() {
    if (has_agreed_) return;
    std::vector<double> used;
    for (std::size_t bit = 1; used.size() < ctx_.axes().size(); bit *= 2) used.push_back(axes_ & bit ? 1 : 0);
    if (ctx_.size() > 1)
      ctx_.world
          .all_reduce(used.data(), used.data(), static_cast<std::int64_t>(used.size()), dtype::f64, reduction::max)
          .wait();
    for (std::size_t i = 0; i < used.size(); ++i) agreed_ |= std::size_t(used[i] > 0) << i;
    has_agreed_ = true;
  }

  context& ctx_;
  std::vector<double> squares_, sums_;  // by the set of axes that a parameter is sharded over, one bit an axis
  std::size_t axes_ = 0, agreed_ = 0;   // over which parameters are sharded: on this rank, on any
  bool has_agreed_ = false;
};

/// The global norm of gradients that are tensors, for clipping in a loop of one's own: the same number on every rank.
/// Placement: nothing pending, which is refused; slices' squares are summed over their axes, whole values count once.
/// All ranks call it with the same gradients. Cost: an all-reduce of a few numbers for each axis that shards one.
template <any_tensor... Gs>
requires(sizeof...(Gs) > 0) double gradient_norm(const Gs&... gradients) {
  static_assert((detail::none<pending_in<layout_of<Gs>>> && ...),
                "weft: the norm of a pending sum isn't that of its addends: all_reduce<axis> or reduce_scatter<dim, "
                "axis> the gradient first");
  static_assert((floating<typename Gs::element_type> && ...), "weft: gradients are of a floating element type");
  const context_ref contexts[] = {gradients.ctx...};
  for (const context_ref& ctx : contexts)
    require(ctx && ctx == contexts[0], "the gradients are tensors of several ranks, or were never made");
  gradient_norm_parts parts(*contexts[0]);
  (([&] {
     using Backend = typename Gs::backend;
     const local_array held =
         detail::with_padding<Backend>(*contexts[0], gradients.held(), detail::valid_part(gradients));
     parts.add(Backend::sum_of_squares(contexts[0]->template queue<Backend>(), held.elements(),
                                       held.template as<typename Gs::element_type>()),
               detail::cut_axes<layout_of<Gs>>(), nullptr);
   }()),
   ...);
  return std::sqrt(parts.total());
}

}  // namespace weft
