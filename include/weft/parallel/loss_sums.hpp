// The loss as two sums over tokens, of which the mean is one by the other. Invariant: sums of unequal parts add up;
// means don't, so nothing is divided before the last rank and the last micro-batch are in.
#pragma once

#include <string>

#include <weft/backend/concept.hpp>
#include <weft/tensor/context.hpp>

namespace weft {

/// The sum of the losses of tokens, in nats, and how many tokens; double, whatever the loss was computed in.
struct loss_sums {
  double sum = 0, count = 0;
};

/// A metric over all held-out tokens: its sum by its count; NaN where nothing was counted.
struct metric_value {
  std::string name;
  double value = 0;
};

namespace detail {

/// Calls sum_over(axis) for the axes that the loss's type L says its sums are pending on, and for the stages of a
/// pipeline, of which the last alone has any.
template <any_tensor L, class F>
void each_axis_of_loss(F&& sum_over) {
  [&]<class... As>(tag_list<As...>) {
    ((state_on<layout_of<L>, As>.kind == holds::partial ? sum_over(id_of<As>) : void()), ...);
  }(axes_of<layout_of<L>>{});
  sum_over(id_of<pp>);
}

}  // namespace detail

/// Finishes this rank's sums over the axes that the loss's type L says they are pending on, and over the stages of a
/// pipeline, of which the last alone has any. All ranks call it, on one line.
template <any_tensor L>
loss_sums finished(context& ctx, loss_sums s, call_site at = call_site::here()) {
  double two[2] = {s.sum, s.count};
  detail::each_axis_of_loss<L>([&](axis_id axis) {
    if (axis_group& g = ctx.along(axis); g.degree > 1)
      g.comm.host()
          .all_reduce(two, two, 2, dtype::f64, reduction::sum, collective_label{"loss", {}, {}, -1, at})
          .wait();
  });
  return {two[0], two[1]};
}

/// Loss sums where kernels add them up and read them. The host gets them by `const loss_sums own = ...`, which waits
/// for the queue.
template <class Backend>
class queued_loss {
 public:
  explicit queued_loss(context& ctx) : ctx_(ctx) {}

  void clear() {
    if (!two_) two_ = ctx_.make(dtype::f64, {1, {2}}, memory::buffers);
    Backend::zero(queue(), two_);
  }
  /// Adds this rank's addends, two scalars.
  template <any_tensor Sum, any_tensor Count>
  void add(const Sum& sum, const Count& count) {
    add_number(sum, two_.as<double>());
    add_number(count, two_.as<double>() + 1);
  }
  /// As finished<L>, in place.
  template <any_tensor L>
  void finish(call_site at = call_site::here()) {
    detail::each_axis_of_loss<L>([&](axis_id axis) {
      if (axis_group& g = ctx_.along(axis); g.degree > 1)
        g.comm.all_reduce(two_.data, two_.data, 2, dtype::f64, reduction::sum, collective_label{"loss", {}, {}, -1, at})
            .wait(ctx_.order());
    });
  }
  /// The sum, then the count.
  const double* in_memory() const { return two_.as<double>(); }
  operator loss_sums() const {
    double two[2] = {};
    detail::read_numbers<Backend>(queue(), in_memory(), two, 2);
    return {two[0], two[1]};
  }

 private:
  auto& queue() const { return ctx_.template queue<Backend>(); }
  template <any_tensor X>
  void add_number(const X& x, double* to) {
    using T = typename X::element_type;
    Backend::convert(queue(), 1, static_cast<const T*>(untyped(x).held().template as<T>()), to, true);
  }

  context& ctx_;
  local_array two_;
};

}  // namespace weft
