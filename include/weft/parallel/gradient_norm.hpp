// The global gradient norm from placements. Invariant: a parameter's squares are summed over an axis exactly when the
// ranks along it hold different parts of it; where they hold the same, they count once.
#pragma once

#include <cmath>
#include <tuple>

#include <weft/core/anywhere.hpp>
#include <weft/core/refusal.hpp>
#include <weft/op/placed.hpp>
#include <weft/tensor/unit_observer.hpp>

namespace weft {

namespace detail {

/// Of `of` sums of squares, one for each set of axes, those over which axis `bit` counts take the ranks' sums.
struct take_sums {
  std::size_t of, bit;
  const double* sums;
  double* squares;
  WEFT_ANYWHERE void operator()() const {
    for (std::size_t key = 0; key < of; ++key)
      if (key & bit) squares[key] = sums[key];
  }
};
/// All of them together.
struct add_squares {
  std::size_t of;
  const double* squares;
  double* total;
  WEFT_ANYWHERE void operator()() const {
    *total = 0;
    for (std::size_t key = 0; key < of; ++key) *total += squares[key];
  }
};

}  // namespace detail

/// Squares are added by runs of parameters that are cut alike, then finished together, in the backend's memory.
template <class Backend>
class gradient_norm_parts {
 public:
  explicit gradient_norm_parts(context& ctx) : ctx_(ctx), sets_(std::size_t(1) << ctx.axes().size()) {}

  /// A parameter's squares will be added so, in each norm: before agree().
  void expect(const std::vector<axis_id>& sharded, const axis_set& stored_over) {
    axes_ |= key_of(sharded, stored_over);
  }
  /// All ranks find out which axes take part, since a stage knows its own parameters only. Once, before the first norm.
  /// Cost: an all-reduce of a number an axis, for which the host waits. at: where the program asks; here and below.
  void agree(call_site at = {}) {
    if (ctx_.size() == 1) return;
    std::vector<double> used;
    for (std::size_t bit = 1; used.size() < ctx_.axes().size(); bit *= 2) used.push_back(axes_ & bit ? 1 : 0);
    const auto n = static_cast<std::int64_t>(used.size());
    ctx_.world.host()
        .all_reduce(used.data(), used.data(), n, dtype::f64, reduction::max,
                    ctx_.label("axes of the gradient norm", {}, at))
        .wait();
    axes_ = 0;
    for (std::size_t i = 0; i < used.size(); ++i) axes_ |= std::size_t(used[i] > 0) << i;
  }

  /// Starts anew.
  void clear() {
    const auto n = static_cast<std::int64_t>(sets_);
    if (!numbers_) numbers_ = ctx_.make(dtype::f64, {1, {2 * n + 1}}, memory::buffers);
    Backend::zero(queue(), numbers_);
  }

  /// Adds the squares of n elements that this rank has of parameters cut alike. `sharded`: the axes over which their
  /// types are; `stored_over`: those over which its storage is.
  template <class T>
  void add(std::int64_t n, const T* x, const std::vector<axis_id>& sharded, const axis_set& stored_over) {
    Backend::sum_of_squares(queue(), n, x, squares() + key_of(sharded, stored_over), true);
  }

  /// Sum over all parameters, each finished over its axes; it lies in memory until clear(). The same on every rank.
  /// Ranks of different stages may have added different parameters, or none; those of one stage, the same ones. Cost:
  /// an all-reduce of 2^axes numbers for each axis that any rank's parameter is sharded over.
  kernel_number total(call_site at = {}) {
    double* const sums = squares() + sets_;
    std::size_t bit = 1;
    for (const axis_group& g : ctx_.axes()) {
      if (axes_ & bit) {
        ctx_.along(g.axis)
            .comm
            .all_reduce(squares(), sums, static_cast<std::int64_t>(sets_), dtype::f64, reduction::sum,
                        collective_label{"gradient norm", {}, {}, -1, at})
            .wait(ctx_.order());
        Backend::once(queue(), detail::take_sums{sets_, bit, sums, squares()});
      }
      bit *= 2;
    }
    double* const all = sums + sets_;
    Backend::once(queue(), detail::add_squares{sets_, squares(), all});
    return kernel_number::in_memory(all);
  }

 private:
  auto& queue() const { return ctx_.template queue<Backend>(); }
  double* squares() const { return numbers_.template as<double>(); }

  // The set of axes over which ranks hold different parts, one bit an axis.
  std::size_t key_of(const std::vector<axis_id>& sharded, const axis_set& stored_over) const {
    std::size_t key = 0, bit = 1;
    for (const axis_group& g : ctx_.axes()) {
      if (g.cuts(sharded, stored_over)) key |= bit;
      bit *= 2;
    }
    return key;
  }

  context& ctx_;
  std::size_t sets_;      // of axes, 2 to the power of how many there are
  local_array numbers_;   // squares by the set of axes that a parameter is cut over; their sums over ranks; the total
  std::size_t axes_ = 0;  // over which parameters are cut: on this rank, and once it was agreed on, on any
};

namespace detail {
/// Throws where one of `count` gradients is there twice: the same object, or the gradient of the same weight. (Not: the
/// same memory, which gradients of a sum's terms may share.)
WEFT_LINKED void require_each_once(const value* const* gradients, int count) {
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < i; ++j)
      require(gradients[i] != gradients[j] &&
                  (gradients[i]->gradient_of == 0 || gradients[i]->gradient_of != gradients[j]->gradient_of),
              "the norm would count gradient ", i, " twice: it is gradient ", j, " again (from 0); give each once");
}
}  // namespace detail

/// The global norm of gradients that are tensors, for clipping in a loop of one's own: the same number on every rank.
/// Placement: nothing pending, which is refused; slices' squares are summed over their axes, whole values count once.
/// All ranks call it with the same gradients. Throws weft::failure where one is there twice. Cost: an all-reduce of a
/// few numbers for each axis that shards one; it waits for the queue.
template <any_tensor... Gs>
requires(sizeof...(Gs) > 0) double gradient_norm(const Gs&... gradients) {
  static_assert((detail::none<pending_in<layout_of<Gs>>> && ...),
                "weft: the norm of a pending sum isn't that of its addends: all_reduce<axis> or reduce_scatter<dim, "
                "axis> the gradient first");
  static_assert((floating<typename Gs::element_type> && ...), "weft: gradients are of a floating element type");
  const context_ref contexts[] = {untyped(gradients).ctx...};
  for (const context_ref& ctx : contexts)
    require(ctx && ctx == contexts[0], "the gradients are tensors of several ranks, or were never made");
  const value* const all[] = {&untyped(gradients)...};
  detail::require_each_once(all, sizeof...(Gs));
  using Backend = typename std::tuple_element_t<0, std::tuple<Gs...>>::backend;
  context& ctx = *contexts[0];
  gradient_norm_parts<Backend> parts(ctx);
  (parts.expect(detail::cut_axes<layout_of<Gs>>(), {}), ...);
  parts.agree();
  parts.clear();
  const auto add = [&]<class G>(const G& gradient) {
    using T = typename G::element_type;
    const local_array held = detail::with_padding<Backend>(ctx, untyped(gradient).held(), detail::valid_part(gradient));
    parts.add(held.elements(), static_cast<const T*>(held.template as<T>()), detail::cut_axes<layout_of<G>>(), {});
  };
  (add(gradients), ...);
  return std::sqrt(detail::number_on_host<Backend>(ctx.template queue<Backend>(), parts.total()));
}

}  // namespace weft
