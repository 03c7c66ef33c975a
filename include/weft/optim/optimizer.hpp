// What an optimizer is to a parameter store: a rule from a gradient to a weight, so that it is the same however a
// sharding policy shards what it works on. Its grain is the element, or the whole matrix. Invariant: every element is
// updated once, by the ranks that store it, from a gradient with nothing pending.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <weft/backend/rounding_ranges.hpp>
#include <weft/core/finite.hpp>
#include <weft/core/refusal.hpp>
#include <weft/policy/precision.hpp>
#include <weft/tensor/consistency.hpp>

namespace weft {

/// The numbers of one update, the same on every rank.
struct optimizer_step {
  std::int64_t number;  // of updates, this one included: from 1
  double lr;
  double grad_scale;  // what gradients are multiplied by first: clipping, the mean over tokens, loss scaling
};

/// The same for an optimizer that is made of kernels: grad_scale may lie in memory, and where it is NaN there, the step
/// isn't taken.
struct kernel_step {
  std::int64_t number;
  double lr;
  kernel_number grad_scale;

  kernel_step(std::int64_t update, double rate, const kernel_number& scale)
      : number(update), lr(rate), grad_scale(scale) {}
  kernel_step(const optimizer_step& step) : kernel_step(step.number, step.lr, step.grad_scale) {}
};

namespace detail {
// Throw where a number of an optimizer, or of its step, has no meaning; NaN never has.
inline void require_number(std::string_view optimizer, const char* name, double x, bool good, const char* range) {
  require(good, optimizer, "'s ", name, " is ", x, "; it has to be ", range);
}
inline void require_rate(std::string_view optimizer, const char* name, double x) {
  require_number(optimizer, name, x, is_finite(x) && x >= 0, "a finite number, at least 0");
}
inline void require_below_one(std::string_view optimizer, const char* name, double x) {
  require_number(optimizer, name, x, x >= 0 && x < 1, "at least 0 and below 1");
}
WEFT_LINKED void require_step(std::string_view optimizer, const kernel_step& step) {
  require(step.number >= 1, optimizer, "'s steps count from 1, not from ", step.number);
  require_rate(optimizer, "lr", step.lr);
  if (step.grad_scale.lies_in_memory()) return;  // whoever put it there has looked at it
  require(is_finite(step.grad_scale.value()), "gradients are to be multiplied by ", step.grad_scale.value(),
          ", which no weight survives: was the loss taken over any token?");
}
/// Stands for rounding_ranges where moments aren't rounded.
struct no_rounding {
  constexpr no_rounding part(std::int64_t, std::int64_t) const { return {}; }
  constexpr bool full() const { return false; }
};
/// What an update is given of how its moments are rounded.
template <class Precision>
using rounding_of = std::conditional_t<rounds_moments<Precision>, rounding_ranges, no_rounding>;
}  // namespace detail

/// An optimizer's own numbers for each element of what it updates: [0], and [1] where it keeps two moments. Throws for
/// one that it doesn't keep.
template <class Master>
class moment_spans {
 public:
  moment_spans(std::span<Master> first, std::span<Master> second, int count) : spans_{first, second}, count_(count) {}
  const std::span<Master>& operator[](std::size_t i) const {
    require(i < size(), "update() reads moments[", i, "] of its share, and this optimizer keeps ", count_,
            " moments: write static constexpr int moments = ", i + 1);
    return spans_[i];
  }
  std::size_t size() const { return static_cast<std::size_t>(count_); }

 private:
  std::array<std::span<Master>, 2> spans_;
  int count_;
};

/// What this rank updates of one parameter: all of it, or its share. `moments` are zero at first. Where weight,
/// gradient and moments are zero, as in padding, an update leaves them zero.
template <class Master, class Gradient>
struct parameter_share {
  std::string_view name;
  bool decays;  // a matrix, to which weight decay applies
  std::span<Master> weight;
  std::span<const Gradient> gradient;
  moment_spans<Master> moments;
};

/// The same for an optimizer that is made of the backend's kernels and so runs on every backend: arrays of `count`
/// elements in the backend's memory, of neighbouring parameters together, with zeros between them; `decaying` says to
/// which of them weight decay applies. `second` is null where it keeps one moment, `first` where none.
template <class Backend, class Precision>
struct kernel_share {
  using backend = Backend;
  using compute = typename Precision::compute;
  using gradient_type = typename Precision::gradient;
  using master = typename Precision::master;
  using moment = detail::moment_of<Precision>;

  context& ctx;
  decay_ranges decaying;
  std::int64_t count;
  master* weight;
  const gradient_type* gradient;
  moment *first, *second;
  compute*
      working;  // what operators see of the weight: the rule writes it too, as publish() does; null: the same array
  kernel_number grad_scale = {};  // the step's: where that leaves outputs as they are, so do accumulate and move
  [[no_unique_address]] detail::rounding_of<Precision> rounding = {};  // of its moments where those are bf16

  typename Backend::queue& queue() const { return ctx.template queue<Backend>(); }
  /// `n` of its elements, from element `from` on.
  kernel_share part(std::int64_t from, std::int64_t n) const {
    const auto behind = [from](auto* a) { return a ? a + from : nullptr; };
    return {ctx,
            decaying.part(from, n),
            n,
            behind(weight),
            behind(gradient),
            behind(first),
            behind(second),
            behind(working),
            grad_scale,
            rounding.part(from, n)};
  }
  /// out = factor * gradient, in the master's type.
  void scaled_gradient(const kernel_number& factor, master* out) const {
    Backend::convert(queue(), count, gradient, out, false);
    if (factor.lies_in_memory() || factor.value() != 1)
      Backend::scale(queue(), count, factor, static_cast<const master*>(out), out, false);
  }
  /// first = momentum * first + gradient.
  void accumulate(double momentum, const master* gradient_now) const {
    Backend::scale(queue(), count, grad_scale.gate(momentum), static_cast<const master*>(first), first, false);
    Backend::scale(queue(), count, grad_scale.gate(1), gradient_now, first, true);
  }
  /// weight = (1 - lr * weight_decay) * weight - amount * direction, and operators see it. Decay where `decaying` has
  /// the element.
  void move(double lr, double weight_decay, double amount, const master* direction) const {
    if (weight_decay != 0)
      decaying.runs(0, count, [&](std::int64_t begin, std::int64_t end, bool decays) {
        master* const here = weight + begin;
        if (decays)
          Backend::scale(queue(), end - begin, grad_scale.gate(1 - lr * weight_decay), static_cast<const master*>(here),
                         here, false);
      });
    Backend::scale(queue(), count, grad_scale.gate(-amount), direction, weight, true);
    publish();
  }
  /// The working copy takes the weight's new numbers, rounded.
  void publish() const {
    if (working) Backend::convert(queue(), count, static_cast<const master*>(weight), working, false);
  }
};

/// Matrices that lie one after another, each of `rows` x `columns` elements, row-major, in a backend's memory: whole
/// ones, without padding. What an optimizer of that grain changes in place.
template <class Backend, class Master>
struct whole_matrices {
  using backend = Backend;
  using master = Master;

  context& ctx;
  std::int64_t count, rows, columns;
  Master* data;
};

namespace detail {
template <class O>
concept has_moments = requires(const O& o) {
  { O::moments } -> std::convertible_to<int>;
  requires !requires { requires std::is_member_object_pointer_v<decltype(&O::moments)>; };
  { o.lr } -> std::convertible_to<double>;
};
}  // namespace detail

/// An optimizer of the library's kind: `static constexpr bool on_every_backend = true`, and update(kernel_share,
/// kernel_step). It is made of the backend's kernels alone. Of a step that isn't taken they have to leave weights and
/// moments as they are: those that write them are given step.grad_scale, or a number that it gates, as accumulate and
/// move do.
template <class O>
concept kernel_optimizer = detail::has_moments<O> && requires {
  requires O::on_every_backend;
};

/// An optimizer of whole matrices: `static constexpr bool whole_matrices = true`; direction(kernel_share, out, step)
/// writes to out[0 ... count) what each element's own numbers say, change(whole_matrices) makes of that what the weight
/// moves by, and update(kernel_share, whole, rows, columns, step) moves it. It is used through `by_shape`. One that
/// reads numbers on the host, and so leaves `on_every_backend` out, is called for steps that are taken alone. Both
/// functions go element by element, and may be called for one piece of a parameter after another. `static constexpr
/// bool moments_in_direction = true`: direction doesn't need the weight, and update no moments, so that of a state
/// which has to be brought to a device each is brought once; it is null where it isn't needed.
template <class O>
concept matrix_optimizer = detail::has_moments<O> && requires {
  requires O::whole_matrices;
};

/// An optimizer of one's own: its learning rate, how many moments it keeps for each element (0 to 2), and
/// `update(share, step)`, which changes share.weight and share.moments in place. On the host's backend.
template <class O>
concept optimizer_policy = detail::has_moments<O> &&
    (kernel_optimizer<O> ||
     requires(const O& o, parameter_share<float, float>& share, const optimizer_step& step) { o.update(share, step); });

namespace detail {
template <class O>
inline constexpr bool moments_in_direction = requires {
  requires O::moments_in_direction;
};
}  // namespace detail

}  // namespace weft
