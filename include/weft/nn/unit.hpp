// A unit's use: what a sharding policy gathers, frees and reduces at once, around the function that reads it.
// Invariant: whoever is told that a use begins is told that it ends, also where the function, or the backward, throws.
#pragma once

#include <weft/autograd/record.hpp>
#include <weft/op/placed.hpp>
#include <weft/tensor/unit_observer.hpp>

namespace weft {

/// What happens around a unit's use. A parameter store implements it; a model calls it through `in_unit`. A backward in
/// two parts calls those of the backward once a part.
class unit_hooks {
 public:
  virtual ~unit_hooks() = default;
  virtual void before_forward(int unit, bool recorded) = 0;
  virtual void after_forward(int unit) = 0;
  virtual void before_backward(int unit, backward_part part) = 0;
  virtual void after_backward(int unit, backward_part part) = 0;
  /// In place of after_backward where the backward ended with an error.
  virtual void abandon_backward(int, backward_part) {}
  /// What errors and traces call it; empty where the hooks don't know. Lives as long as they.
  virtual std::string_view unit_name(int) const { return {}; }
  /// The number of the step that they are in. A forward of one step has no backward in another.
  virtual std::uint64_t step_number() const { return 0; }
};

namespace detail {

/// From before_forward to after_forward, with an entry at each end where they are recorded.
class unit_use {
 public:
  unit_use(context& ctx, unit_hooks& hooks, int unit, const value& x)
      : ctx_(ctx), tape_(ctx.tape), here_{&hooks, unit, ctx.unit, hooks.step_number()} {
    if (ctx.spans) ctx.spans->begin("forward " + ctx.spans->unit_name(unit));
    hooks.before_forward(unit, tape_ != nullptr);
    ctx.unit = hooks.unit_name(unit);
    push("unit begins", tape_boundary::begins, begins, ctx.observer ? x : value());
  }
  ~unit_use() {
    if (!ended_) end(value());
    here_.hooks->after_forward(here_.unit);
    ctx_.unit = here_.around;
    if (ctx_.spans) ctx_.spans->end();
  }
  unit_use(const unit_use&) = delete;
  unit_use& operator=(const unit_use&) = delete;
  void end(const value& y) {
    ended_ = true;
    push("unit ends", tape_boundary::ends, ends, y);
  }

 private:
  struct boundary {
    unit_hooks* hooks;
    int unit;
    std::string_view around;  // the unit that this one is within, if any
    std::uint64_t step;

    /// Whether it was recorded in this step. What was left on the tape by another is passed over.
    bool current() const { return step == hooks->step_number(); }
  };
  WEFT_LINKED void push(const char* name, tape_boundary kind, void (*vjp)(context&, tape_node&), const value& v) {
    if (!tape_) return;
    tape_node& node = tape_->push();
    node.name = name;
    node.boundary = kind;
    node.in_every_part = true;
    node.set(here_);
    node.add_input(v);
    node.vjp = vjp;
  }
  // The backward comes to a unit's end first.
  WEFT_LINKED static void ends(context& ctx, tape_node& node) {
    const auto b = node.get<boundary>();
    require(b.current() || !pending_gradient(node.input(0)), b.hooks->unit_name(b.unit),
            " ran forward in one step and is backpropagated in another: call begin_step() before a step's forwards");
    if (!b.current()) return;
    if (ctx.spans)
      ctx.spans->begin((node.part() == backward_part::weights ? "weight gradients " : "backward ") +
                       ctx.spans->unit_name(b.unit));
    b.hooks->before_backward(b.unit, node.part());
    node.on()->enter({abandon, b.hooks, b.unit, node.part()});
    ctx.unit = b.hooks->unit_name(b.unit);
    if (ctx.observer) ctx.observer->backward_begins(b.unit, pending_gradient(node.input(0)));
  }
  WEFT_LINKED static void begins(context& ctx, tape_node& node) {
    const auto b = node.get<boundary>();
    if (!b.current()) return;
    if (ctx.observer) ctx.observer->backward_ends(b.unit, pending_gradient(node.input(0)));
    node.on()->leave();
    b.hooks->after_backward(b.unit, node.part());
    ctx.unit = b.around;
    if (ctx.spans) ctx.spans->end();
  }
  static void abandon(context& ctx, void* hooks, int unit, backward_part part) {
    static_cast<unit_hooks*>(hooks)->abandon_backward(unit, part);
    if (ctx.spans) ctx.spans->end();
  }

  context& ctx_;
  tape* tape_;
  boundary here_;
  bool ended_ = false;
};

}  // namespace detail

/// y = f(x) with the unit's parameters gathered, in the forward and, where it is recorded, in the backward. f reads the
/// parameters of `unit` (a number that begin_unit returned) and of no other, but for a unit whose in_unit is within.
/// Shape and placement: f's.
template <class F, any_tensor X>
auto in_unit(context& ctx, unit_hooks& hooks, int unit, F&& f, const X& x) {
  detail::unit_use use(ctx, hooks, unit, untyped(x));
  if (ctx.observer) ctx.observer->forward_begins(unit, untyped(x));
  auto y = f(x);
  if (ctx.observer)
    ctx.observer->forward_ends(unit, untyped(y), detail::cut_axes<layout_of<decltype(y)>>(), detail::placed(y));
  use.end(untyped(y));
  return y;
}

}  // namespace weft
