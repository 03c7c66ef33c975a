// Finds where a step's first NaN or infinity comes from: the unit that was given finite numbers and passed on others.
// Invariant: a unit is blamed only for what it was not given; all ranks come to one conclusion.
#pragma once

#include <limits>

#include <weft/train/activation_meter.hpp>

namespace weft {

/// Observes a step that is computed once more. A unit's weights and output are checked in its forward, the gradients of
/// its weights and of its input in its backward; micro-batches are told apart by counting.
class fault_finder final : public unit_observer {
 public:
  /// of: statistics_of<the model's backend>.
  fault_finder(context& ctx, const parameter_registry& registry, statistics_function of)
      : ctx_(ctx), registry_(registry), of_(of), units_(registry.units().size()) {}

  WEFT_LINKED void forward_begins(int unit, const value& x) override {
    if (depth_++ == 0) {
      pass_ = ++at(unit).forwards;
      if (!finite(x.held())) saw(unit, input, "in what it is given");
    }
    for (const parameter_record& p : parameters(unit))
      if (!finite(p.live->at)) return saw(unit, weight, "in its weight " + p.name);
  }
  void forward_ends(int unit, const value& y, const std::vector<axis_id>&, const placed_slice&) override {
    if (--depth_ == 0 && !finite(y.held())) saw(unit, output, "in what it passes on");
  }
  void backward_begins(int unit, const local_array* gradient) override {
    if (depth_++ == 0) pass_ = at(unit).backwards += gradient != nullptr;
    if (gradient && !finite(*gradient)) saw(unit, output_gradient, "in the gradient that it is given");
  }
  WEFT_LINKED void backward_ends(int unit, const local_array* gradient) override {
    --depth_;
    const auto& all = parameters(unit);
    for (auto p = all.rbegin(); p != all.rend(); ++p)  // those that are used last get their gradients first
      if (p->slot->has_gradient && p->slot->gradient && !finite(p->slot->gradient))
        return saw(unit, weight_gradient, "in the gradient of " + p->name);
    if (depth_ == 0 && gradient && !finite(*gradient)) saw(unit, input_gradient, "in the gradient that it passes back");
  }

  /// The first fault of all ranks as a clause, "first seen in the backward of layer 3 (rank 2), in the gradient of
  /// layers.3.down". Empty when nothing that flowed was at fault. The same on every rank; all call it.
  std::string conclusion() const { return earliest(ctx_, found_.order, found_.clause); }

  /// The clause of the rank where `order` is least, on every rank; empty where no rank has any.
  WEFT_LINKED static std::string earliest(context& ctx, std::int64_t order, const std::string& clause) {
    const std::int64_t ranks = ctx.size();
    std::int64_t mine = order == none ? none : order * ranks + ctx.rank().here(), least = mine;
    ctx.world.host().all_reduce(&mine, &least, 1, dtype::i64, reduction::min, {"first fault"}).wait();
    if (least == none) return {};
    const int from = static_cast<int>(least % ranks);
    auto length = static_cast<std::int64_t>(clause.size());
    ctx.world.host().broadcast(&length, sizeof length, from, {"length of a text"}).wait();
    std::string text = clause;
    text.resize(static_cast<std::size_t>(length));
    ctx.world.host().broadcast(text.data(), length, from, {"text"}).wait();
    return text;
  }
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

 private:
  // What a unit is given comes last: it counts where no rank has seen another unit pass it on.
  enum kind { weight, output, input, weight_gradient, input_gradient, output_gradient, kinds };
  struct passes {
    int forwards = 0, backwards = 0;
  };
  struct fault {
    int pass = std::numeric_limits<int>::max();
    std::int64_t order = none;
    std::string clause;
  };

  passes& at(int unit) { return units_[static_cast<std::size_t>(unit)]; }
  bool finite(const local_array& x) const { return of_(ctx_, x).not_finite == 0; }
  const std::list<parameter_record>& parameters(int unit) const {
    return registry_.units()[static_cast<std::size_t>(unit)].parameters;
  }
  WEFT_LINKED void saw(int unit, kind what, const std::string& where) {
    if (pass_ >= found_.pass) return;  // what this rank sees in a pass after its first fault may come from that
    found_ = {pass_, static_cast<std::int64_t>(pass_) * int(kinds) + int(what),
              std::string("first seen in the ") + (what >= weight_gradient ? "backward" : "forward") + " of " +
                  registry_.units()[static_cast<std::size_t>(unit)].name + " (rank " +
                  std::to_string(ctx_.rank().here()) + "), " + where};
  }

  context& ctx_;
  const parameter_registry& registry_;
  statistics_function of_;
  std::vector<passes> units_;
  int depth_ = 0, pass_ = 0;  // of the outer unit: how often it has run
  fault found_;
};

}  // namespace weft
