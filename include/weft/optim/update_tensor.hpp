// An optimizer over a single tensor, for loops of one's own. Invariant: neither a weight nor its gradient has a sum
// pending, and a weight's state is used for no other.
#pragma once

#include <weft/core/finite.hpp>
#include <weft/optim/on_whole_matrices.hpp>
#include <weft/tensor/compare.hpp>

namespace weft {

/// What an optimizer keeps of one weight. It belongs to the weight and the optimizer of its first update. Moments are
/// double for a double weight, else float; for a 16-bit weight there are master weights in float too, from which the
/// weight is rounded at each step.
struct optimizer_state {
  local_array weight, first, second, master;
  std::string_view optimizer = {};  // its name
  int steps = 0;
  std::uint32_t updates = 0, version = 0;  // the weight's after the last step
  context_ref ctx = {};                    // the weight's: another launch may have its memory at the same addresses
};

namespace detail {

template <class T>
struct precision_of_tensor {
  using compute = T;
  using gradient = T;
  using master = accumulate_t<T>;
};

/// What an update takes to be the same on every rank: the weight and its gradient where they are whole, its numbers
/// everywhere.
template <any_tensor W, any_tensor G, class Optimizer>
[[gnu::cold, gnu::noinline]] void compare_update(const W& w, const G& gradient, const optimizer_state& state,
                                                 const Optimizer& rule, double factor) {
  context& ctx = *untyped(w).ctx;
  std::vector<named_number> numbers = rule.numbers();
  numbers.push_back({"the gradient's factor", factor});
  numbers.push_back({"the number of steps", static_cast<double>(state.steps)});
  ctx.check->each_axis([&](axis_group& along) {
    ctx.check->compare(along.comm, along.name, {Optimizer::name.data(), "numbers"}, numbers);
  });
  compare_along<typename W::backend>(untyped(w), valid_part(w), {Optimizer::name.data(), dims_text<dims_of<W>>()},
                                     whole_axes<layout_of<W>>(ctx));
  const std::string of_gradient = text("the gradient of ", dims_text<dims_of<W>>());
  compare_along<typename W::backend>(untyped(gradient), valid_part(gradient), {Optimizer::name.data(), of_gradient},
                                     whole_axes<layout_of<G>>(ctx));
}

}  // namespace detail

/// Updates w in place on every rank that holds it by adamw, sgd or muon, from the gradient times `factor`
/// (clip_factor's, the inverse of a loss scale): `optimizer_state state; optimizer_update(w, w.grad(), state, muon{.lr
/// = 0.01});`. Placement: w's own, for the gradient too; a pending sum is refused in both, since each rank would step
/// by its own addend, or add the whole step to its own. muon takes matrices, so a table or a vector is refused. w's
/// gradient is used up: the next backward begins a new one. Throws weft::failure where state is another weight's, or
/// another state has updated w since; and where the gradient is another rank's, another weight's, of other sizes, or
/// was used up already.
template <any_tensor W, any_tensor G, class Optimizer>
void optimizer_update(W& w, const G& gradient, optimizer_state& state, const Optimizer& rule, double factor = 1) {
  constexpr bool whole = matrix_optimizer<Optimizer>, suits = !whole || has_matrix_form<W>;
  constexpr bool known = (whole || kernel_optimizer<Optimizer>)&&requires { std::string_view(Optimizer::name); };
  static_assert(known,
                "weft: optimizer_update takes adamw, sgd or muon; an optimizer of one's own updates what a parameter "
                "store keeps: store.update(optimizer, step)");
  static_assert(
      suits,
      "weft: this optimizer takes matrices of a layer, and this tensor is a table (it has vocab, seq or batch) "
      "or a vector: take adamw for it");
  static_assert(!std::is_const_v<W>, "weft: an optimizer changes the weight, and this one is const");
  static_assert(floating<typename W::element_type>,
                "weft: an optimizer moves a weight by fractions: its element type is float, double, bf16 or fp16");
  static_assert(detail::none<pending_in<layout_of<W>>>,
                "weft: an optimizer's weight is no pending sum, which would take the whole step on every rank: train "
                "the tensor that it was converted from, or all_reduce<axis> it once");
  static_assert(detail::none<pending_in<layout_of<G>>>,
                "weft: an optimizer takes gradients with nothing pending: all_reduce<axis> or reduce_scatter<dim, "
                "axis> it first");
  static_assert(std::same_as<typename W::backend, typename G::backend>,
                "weft: the gradient lives on another backend than the weight");
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
  if constexpr (known && suits && floating<T> && !has_partial<layout_of<W>> && !has_partial<layout_of<G>> &&
                cut_alike && std::same_as<T, typename G::element_type>) {
    using Backend = typename W::backend;
    using M = accumulate_t<T>;
    if constexpr (requires { check(rule); }) check(rule);
    require(detail::is_finite(factor), Optimizer::name, "'s gradient is multiplied by ", factor,
            "; the factor has to be finite");
    require(untyped(w).ctx && untyped(w).ctx == untyped(gradient).ctx,
            "the weight and its gradient are tensors of two ranks, or were never made");
    require(untyped(w).whole == untyped(gradient).whole && untyped(w).sizes() == untyped(gradient).sizes(),
            "the gradient has ", untyped(gradient).whole.elements(), " elements, ", gradient.local_elements(),
            " on this rank, and the weight ", untyped(w).whole.elements(), " and ", w.local_elements(),
            ": it is the gradient of another tensor");
    require(untyped(gradient).gradient_of == 0 ||
                untyped(gradient).gradient_of == static_cast<std::uint32_t>(untyped(w).data.buffer.made()),
            "the gradient is another weight's, whose type is the same: it is the gradient of another tensor; give "
            "w.grad() of this weight, or detach(g) where another tensor's is meant");
    require(untyped(gradient).gradient_of == 0 || w.has_grad(),
            "the gradient was used up by an update, or dropped by zero_grad(): backward(loss) computes the next, which "
            "w.grad() reads");
    require(untyped(gradient).gradient_of == 0 || untyped(gradient).turn == untyped(w).slot->turn,
            "the gradient is of before the last backward(loss), or before an update: give w.grad() as it is after "
            "that, or detach(g) where "
            "the one of before is meant");
    context& ctx = *untyped(w).ctx;
    detail::require_running_once(untyped(w), "an optimizer's update");
    const local_array& held = untyped(w).held();
    if (ctx.check) [[unlikely]]
      detail::compare_update(w, gradient, state, rule, factor);
    auto& queue = ctx.template queue<Backend>();
    const bool first = !state.weight;
    if (first) {
      state.weight = held;
      state.ctx = untyped(w).ctx;
      state.optimizer = Optimizer::name;
      local_array* const kept[] = {&state.first, &state.second};
      for (int i = 0; i < Optimizer::moments; ++i) {
        *kept[i] = ctx.make(dtype_of<M>, held.shape, memory::optimizer);
        Backend::zero(queue, *kept[i]);
      }
      if constexpr (!std::same_as<M, T>) state.master = ctx.make(dtype_of<M>, held.shape, memory::optimizer);
    }
    require(
        state.ctx == untyped(w).ctx && state.weight.data == held.data && state.weight.shape == held.shape,
        "this optimizer_state belongs to another weight: give every weight a state of its own, and a weight that is "
        "made anew a new one");
    require(state.optimizer == Optimizer::name, "this optimizer_state is of ", state.optimizer, ", and this step of ",
            Optimizer::name, ": give it a new one");
    const storage& memory_of_w = untyped(w).data.buffer;
    require(
        state.steps == 0 || state.updates == memory_of_w.updates(),
        "another optimizer_state has updated this weight since this one did: a weight has one state, which counts its "
        "steps");
    T* working = held.template as<T>();
    M* master = nullptr;
    if constexpr (std::same_as<M, T>) {
      master = std::exchange(working, nullptr);
    } else {
      master = state.master.template as<M>();
      if (first || state.version != memory_of_w.version())  // the weight was written to: it begins there
        Backend::convert(queue, held.elements(), static_cast<const T*>(working), master, false);
    }
    memory_of_w.updated();
    state.updates = memory_of_w.updates(), state.version = memory_of_w.version();
    const auto kept = [](const local_array& a) { return a ? a.template as<M>() : nullptr; };
    const kernel_share<Backend, detail::precision_of_tensor<T>> share{
        ctx,
        decay_ranges::all(held.elements()),
        held.elements(),
        master,
        static_cast<const T*>(untyped(gradient).held().template as<T>()),
        kept(state.first),
        kept(state.second),
        working};
    const kernel_step step{++state.steps, rule.lr, factor};
    if constexpr (whole) {
      const local_array direction = ctx.make(dtype_of<M>, held.shape, memory::buffers);
      rule.direction(share, direction.template as<M>(), step);
      const detail::matrix_sizes sizes = detail::on_whole_matrices<Backend, M>(
          ctx, detail::placed(w), detail::matrix_form_of<W>(), direction, [&](const auto& all) { rule.change(all); });
      rule.update(share, static_cast<const M*>(direction.template as<M>()), sizes.rows, sizes.columns, step);
    } else {
      rule.update(share, step);
    }
    if (untyped(w).slot) untyped(w).slot->use_up();
  }
}

}  // namespace weft
