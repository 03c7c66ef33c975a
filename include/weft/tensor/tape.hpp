// The tape: what was computed, in order, so that gradients can be backpropagated through it.
//
// Forward, an operator calls record(name, output, vjp, inputs...): it gives the output its slot, and returns an entry
// in which the operator saves what its vjp reads, or null where nothing wants a gradient. Backward, entries are taken
// from the end: an entry's vjp finds its output's gradient finished, since all that used the output came later, and
// adds to its inputs' slots by what autograd/gradients.hpp offers. A tape is of one rank and one thread; a tape within
// another is that of a function that is computed again. An entry lives as long as what was made of it can be
// backpropagated: a forward whose result is gone is forgotten when the next one is recorded. Invariant: a value's slot
// says on which recording it was made; what is emptied takes another number, so that nobody takes a value of before for
// one that still leads somewhere.
#pragma once

#include <atomic>
#include <exception>
#include <initializer_list>

#include <weft/tensor/consistency.hpp>
#include <weft/tensor/recording.hpp>
#include <weft/tensor/replay.hpp>
#include <weft/tensor/tape_node.hpp>

namespace weft {

/// What was recorded, in order, to be backpropagated. Each `recording` names the one that operators write to.
class tape {
 public:
  /// `records`: where its entries lie; null: on the heap. For a tape that is made anew again and again.
  /// within: the tape of the function around, whose values may be used in this one, since it is backpropagated later.
  explicit tape(record_pool* records = nullptr, const tape* within = nullptr)
      : nodes_(pool_allocator<tape_node>(records)),
        entered_(pool_allocator<entered>(records)),
        ends_(pool_allocator<std::ptrdiff_t>(records)),
        within_(within) {}

  WEFT_LINKED tape_node& push() {
    require_whole();
    if (nodes_.size() >= crowded_) {
      forget_unreachable(true);
      crowded_ = 64 + 2 * nodes_.size();
    } else if (!nodes_.empty() && (!nodes_.back().output || nodes_.back().output->references == 1)) {
      forget_unreachable(false);
    }
    return nodes_.emplace_back();
  }
  std::size_t size() const { return nodes_.size(); }
  void set_within(const tape* around) { within_ = around; }

  /// Something that a backward is inside of between two of its entries, and has to be told when it ends with an error.
  struct entered {
    void (*abandon)(context& ctx, void* who, int which, backward_part part);
    void* who;
    int which;
    backward_part part;
  };
  void enter(const entered& e) { entered_.push_back(e); }
  void leave() { entered_.pop_back(); }

  /// Backpropagates every gradient that is pending on the outputs, last entry first, and forgets the entries, also when
  /// one of them throws.
  void backward(context& ctx) {
    require_whole();
    carry_back(ctx);
  }
  /// Calls f(array) with everything that is kept for the backward, but for parameters' values.
  template <class F>
  void each_saved(F&& f) const {
    for (const tape_node& node : nodes_)
      for (int i = 0; i < node.saved_count(); ++i)
        if (!node.saved_.at(i).live) f(node.saved_.at(i).data);
  }
  /// Calls f(entry) for every entry, in the order in which they were recorded.
  template <class F>
  void each_entry(F&& f) const {
    for (const tape_node& node : nodes_) f(node);
  }

  /// The first part of that: gradients of activations. Entries that lead to weights stay, with what they need, for
  /// backward_weights(), which may come any time later; nothing may be recorded in between.
  WEFT_LINKED void backward_inputs(context& ctx) {
    require_whole();
    const recording off(ctx, nullptr);
    emptying when_thrown{ctx, *this};
    checked_backward checked(ctx.check);
    std::size_t kept = nodes_.size();  // kept entries gather at the end
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      tape_node node = std::move(nodes_[i]);
      if (node.output && !node.output->of_weights && !node.output->has_gradient) continue;
      const bool weights = node.wants(true);
      node.part_ = backward_part::inputs;
      node.on_ = this;
      if (node.wants(false)) call_vjp(ctx, node);
      if (weights)
        nodes_[--kept] = std::move(node);
      else
        forget_gradient(node);
    }
    nodes_.erase(nodes_.begin(), nodes_.begin() + static_cast<std::ptrdiff_t>(kept));
    checked.end();
    when_thrown.armed = false;
    half_done_ = true;
  }
  /// The second part: gradients of weights.
  void backward_weights(context& ctx) {
    require(half_done_, "backward_weights() is the second part of a backward: call backward_inputs() first");
    for (tape_node& node : nodes_) node.part_ = backward_part::weights;
    carry_back(ctx);
  }
  /// Whether backward_inputs() has run and backward_weights() has not.
  bool half_done() const { return half_done_; }

  void clear() {
    nodes_.clear();
    half_done_ = false;
    epoch_ = fresh();
  }
  /// Changes whenever the tape is emptied, and no two tapes ever have the same: what was derived for another recording
  /// is stale, also where a new tape lies in the memory of an old one.
  std::uint64_t epoch() const { return epoch_; }
  static constexpr std::uint64_t no_epoch = ~std::uint64_t{0};  // of values that no tape records
  /// Whether the gradient of a value of that epoch will be carried on once this tape was backpropagated.
  bool leads_to(std::uint64_t epoch) const {
    for (const tape* t = this; t; t = t->within_)
      if (t->epoch_ == epoch) return true;
    return epoch == 0;
  }

 private:
  // A backward, or a part of one within it.
  struct emptying {
    context& ctx;
    tape& of;
    bool armed = true;
    std::string_view unit = ctx.unit;
    int exceptions = std::uncaught_exceptions();
    std::uint64_t around = std::exchange(ctx.backward, ctx.backward ? ctx.backward : ++ctx.backwards);  // 0: none
    ~emptying() {
      ctx.unit = unit;
      if (!around && std::uncaught_exceptions() > exceptions) ctx.failed_backwards.push_back(ctx.backward);
      ctx.backward = around;
      for (; !of.entered_.empty(); of.entered_.pop_back()) {
        const entered& e = of.entered_.back();
        e.abandon(ctx, e.who, e.which, e.part);
      }
      if (armed) of.clear();
    }
  };
  static void call_vjp(context& ctx, tape_node& node) {
    if (ctx.check) [[unlikely]] {
      ctx.check->carries_back(node.name, node.output ? node.output->shape : shape(), node.numbers);
    }
    node.vjp(ctx, node);
  }
  static void forget_gradient(tape_node& node) {
    if (!node.output) return;
    node.output->gradient = {};
    node.output->has_gradient = false;
  }
  WEFT_LINKED void carry_back(context& ctx) {
    const recording off(ctx, nullptr);
    const emptying at_the_end{ctx, *this};
    checked_backward checked(ctx.check);
    while (!nodes_.empty()) {
      tape_node node = std::move(nodes_.back());
      nodes_.pop_back();
      if (node.output && !node.output->has_gradient) continue;
      node.on_ = this;
      call_vjp(ctx, node);
      forget_gradient(node);
    }
    checked.end();
  }
  // Forgets entries whose output nobody can backpropagate, from the last to the first that somebody can, or all of
  // them. The boundaries of a unit go when nothing between them stays.
  WEFT_LINKED void forget_unreachable(bool all) {
    std::ptrdiff_t i = static_cast<std::ptrdiff_t>(nodes_.size()) - 1, left = i + 1;  // from `left` on: what stays
    ends_.clear();
    for (; i >= 0; --i) {
      tape_node& node = at(i);
      if (node.boundary == tape_boundary::begins && !ends_.empty()) {
        const bool all_gone = ends_.back() == left;
        ends_.pop_back();
        if (all_gone) {
          at(left++) = {};
          node = {};
          continue;
        }
      } else if (node.boundary == tape_boundary::none) {
        int known = 0;  // ends of units hold what comes out of them
        for (const std::ptrdiff_t e : ends_) known += at(e).inputs_.at(0) == node.output;
        if (node.output && node.output->references == 1 + known) {
          node = {};
          continue;
        }
        if (!all) break;
      } else if (node.boundary == tape_boundary::begins && !all) {
        break;
      }
      if (--left != i) at(left) = std::move(node);
      if (at(left).boundary == tape_boundary::ends) ends_.push_back(left);
    }
    nodes_.erase(nodes_.begin() + i + 1, nodes_.begin() + left);
  }
  tape_node& at(std::ptrdiff_t i) { return nodes_[static_cast<std::size_t>(i)]; }
  void require_whole() const {
    require(!half_done_,
            "half of a backward in two parts was done on this tape: call backward_weights() before anything else is "
            "recorded or backpropagated");
  }
  std::vector<tape_node, pool_allocator<tape_node>> nodes_;
  std::vector<entered, pool_allocator<entered>> entered_;
  std::vector<std::ptrdiff_t, pool_allocator<std::ptrdiff_t>> ends_;  // of units, whose beginning is yet to be met
  std::size_t crowded_ = 64;  // how many entries there are when all are looked through
  const tape* within_;
  bool half_done_ = false;
  static std::uint64_t fresh() {
    static std::atomic<std::uint64_t> count{0};
    return ++count;
  }
  std::uint64_t epoch_ = fresh();
};

}  // namespace weft
