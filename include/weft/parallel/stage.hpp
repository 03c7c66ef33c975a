// What a pipeline runs of a model: the virtual stages of this rank; of a model that is one function, that. And what it
// asks of a model, its loss and its schedule while it is compiled. Invariant: nothing runs here.
#pragma once

#include <weft/nn/decoder.hpp>
#include <weft/op/cross_entropy.hpp>

namespace weft {
namespace detail {

template <class M>
concept staged_model = requires(M& m) {
  { m.stages() } -> std::convertible_to<const stage_places&>;
  typename M::pass;
};

// A model that is one function, seen as a stage.
template <class M>
struct only_stage {
  M& model;
  explicit only_stage(M& m) : model(m) {}
  struct pass {};
  template <class Ids>
  pass begin_pass(const Ids&) {
    return {};
  }
  template <class Ids>
  const Ids& stage_input(const pass&, const Ids& tokens, int) {
    return tokens;
  }
  template <class Ids>
  const Ids& run_layers(const pass&, const Ids& tokens, int) {
    return tokens;
  }
  template <class Ids>
  auto head(const pass&, const Ids& tokens) {
    return model(tokens);
  }
};

// Whether the compiler can run P's order.
template <class P>
inline constexpr bool is_constant_order = requires {
  typename std::bool_constant<is_sound<P, 1, 2>()>;
};
template <class P, int Ranks, int MicroBatches>
constexpr bool is_sound_where_taken() {
  if constexpr (asked_by<P>(Ranks, MicroBatches).empty())
    return sound_schedule<P, Ranks, MicroBatches>;
  else
    return true;
}
template <class P, bool Stages>
constexpr bool can_be_followed() {
  if constexpr (!is_constant_order<P>)
    return true;  // that is said
  else if constexpr (!Stages)
    return is_sound_where_taken<P, 1, 2>();
  else if constexpr (chunks_of<P> == 1)
    return is_sound_where_taken<P, 1, 2>() && is_sound_where_taken<P, 2, 1>() && is_sound_where_taken<P, 4, 6>();
  else
    return is_sound_where_taken<P, 1, 2>() && is_sound_where_taken<P, 2, 2>() && is_sound_where_taken<P, 4, 8>();
}

// The type of a batch's targets: that of the model's inputs, unless the model says otherwise.
template <class M>
struct targets_of {
  using type = typename M::ids;
};
template <class M>
requires requires { typename M::targets; }
struct targets_of<M> {
  using type = typename M::targets;
};

template <class L>
constexpr bool pending_alike = true;
template <class Sum, class Count>
constexpr bool pending_alike<loss<Sum, Count>> = std::same_as<layout_of<Sum>, layout_of<Count>>;

// Whether the decoder M's head and its loss can be taken in chunks, as L, where that is asked for.
template <bool Asked, class M, class Pass, class Stream, class Targets, class Loss, class L>
constexpr bool can_be_chunked() {
  if constexpr (Asked)
    return std::same_as<L, decltype(std::declval<M&>().head_loss(
                               std::declval<const Pass&>(), std::declval<const Stream&>(),
                               std::declval<const Targets&>(), std::declval<const Loss&>()))>;
  return true;
}

/// The types that a pipeline of Model computes with, and whether it can.
template <class Model, class Loss>
struct stage_types {
  using schedule = typename Model::strategy::schedule;
  using ids = typename Model::ids;
  static constexpr bool staged = staged_model<Model>, has_pp = Model::strategy::mesh::template has<pp>,
                        has_stages = has_pp || (staged && chunks_of<schedule> > 1);
  static_assert(staged || !has_pp,
                "weft: the mesh has the axis pp, and this model can't be cut into stages: derive it from decoder, or "
                "leave pp out of the mesh");
  static_assert(staged || chunks_of<schedule> == 1,
                "weft: the schedule gives each rank several chunks of layers, and this model can't be cut into them: "
                "derive it from decoder, or take a schedule of one chunk, as one_f_one_b");
  static_assert(
      is_constant_order<schedule>,
      "weft: the compiler follows a pipeline schedule's order, and can't run this one: write it as template "
      "<class Emit> static constexpr void order(int stage, int stages, int micro_batches, Emit&& emit), which "
      "calls constexpr functions only and ends");
  static_assert(can_be_followed<schedule, has_pp>(),
                "weft: the pipeline schedule leaves a micro-batch out, does one twice or out of order, or its stages "
                "wait for each other for ever");
  using model = std::conditional_t<staged, Model, only_stage<Model>>;
  using pass = decltype(std::declval<model&>().begin_pass(std::declval<const ids&>()));
  using stream = std::remove_cvref_t<decltype(std::declval<model&>().stage_input(std::declval<const pass&>(),
                                                                                 std::declval<const ids&>(), 0))>;
  static constexpr bool in_chunks = int(Model::strategy::loss::loss_chunks) > 0;
  static_assert(!in_chunks || staged,
                "weft: the strategy takes the loss in chunks, and this model's head can't be told from the rest of it: "
                "derive it from decoder, or leave chunked_loss out of the strategy");
  using logits = std::remove_cvref_t<decltype(std::declval<model&>().head(std::declval<const pass&>(),
                                                                          std::declval<const stream&>()))>;
  using targets = typename targets_of<Model>::type;
  using loss = decltype(std::declval<const Loss&>()(
      std::declval<model&>().head(std::declval<const pass&>(), std::declval<const stream&>()),
      std::declval<const targets&>()));
  static_assert(is_loss<loss>,
                "weft: a loss returns loss{sum, count}: two scalars, of the losses of tokens and of how many they are");
  static_assert(pending_alike<loss>,
                "weft: a loss's sum and count are pending over the same axes, or neither is: all_reduce<axis> both, or "
                "leave both to the trainer");
  static constexpr bool chunked = in_chunks && staged && is_loss<loss>;
  static_assert(can_be_chunked<chunked, model, pass, stream, typename targets_of<Model>::type, Loss, loss>());

  /// Of what the last stage's layers pass on.
  template <class Objective, class Targets>
  static loss loss_of(model& of, const Objective& objective, const pass& p, const stream& x, const Targets& targets) {
    if constexpr (chunked)
      return of.head_loss(p, x, targets, objective);
    else
      return objective(of.head(p, x), targets);
  }
};

}  // namespace detail

/// The loss of a trainer that isn't given another. One of a user's own is a callable like it, built of operators:
/// from what the model returns, and the batch's targets, to a `loss` (sum, count).
struct token_cross_entropy {
  template <class Logits, class Targets>
  auto operator()(Logits&& logits, const Targets& targets) const {
    return cross_entropy(std::forward<Logits>(logits), targets);
  }
};

}  // namespace weft
