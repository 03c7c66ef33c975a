// The pipeline: runs a step's micro-batches through this rank's stage in the order that the schedule policy says,
// sending activations on to the next stage and gradients back to the one before. With one stage it is the loop over
// micro-batches. Invariant: each micro-batch in flight has a tape of its own; what is sent over lives until its
// neighbour has it.
#pragma once

#include <deque>
#include <vector>

#include <weft/autograd/backward.hpp>
#include <weft/core/finite.hpp>
#include <weft/nn/decoder.hpp>
#include <weft/op/cross_entropy.hpp>
#include <weft/op/to_host.hpp>
#include <weft/parallel/loss_sums.hpp>
#include <weft/policy/schedule.hpp>

namespace weft {
namespace detail {

template <class M>
concept staged_model = requires(M& m) {
  { m.stage() } -> std::convertible_to<const stage_place&>;
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
  template <class Ids, class Entered>
  const Ids& run_layers(const pass&, const Ids& tokens, Entered&&) {
    return tokens;
  }
  template <class Ids>
  auto head(const pass&, const Ids& tokens) {
    return model(tokens);
  }
};

template <class P, bool Stages>
constexpr bool can_be_followed() {
  if constexpr (Stages)
    return sound_schedule<P, 1, 2> && sound_schedule<P, 2, 1> && sound_schedule<P, 4, 6>;
  else
    return sound_schedule<P, 1, 2>;
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
constexpr bool is_loss = false;
template <class Sum, class Count>
constexpr bool is_loss<loss<Sum, Count>> = dims_of<Sum>::ndim == 0 && dims_of<Count>::ndim == 0;
template <class L>
constexpr bool pending_alike = true;
template <class Sum, class Count>
constexpr bool pending_alike<loss<Sum, Count>> = std::same_as<layout_of<Sum>, layout_of<Count>>;

}  // namespace detail

/// The loss of a trainer that isn't given another. One of a user's own is a callable like it, built of operators:
/// from what the model returns, and the batch's targets, to a `loss` (sum, count).
struct token_cross_entropy {
  template <class Logits, class Targets>
  auto operator()(Logits&& logits, const Targets& targets) const {
    return cross_entropy(std::forward<Logits>(logits), targets);
  }
};

/// Source: PipeDream-Flush (Narayanan et al. 2021); the backward's two parts: Zero Bubble (Qi et al. 2023).
template <class Model, class Loss = token_cross_entropy>
class pipeline {
  using strategy = typename Model::strategy;
  using schedule = typename strategy::schedule;
  using ids = typename Model::ids;
  static constexpr bool staged = detail::staged_model<Model>, has_stages = strategy::mesh::template has<pp>;
  static_assert(staged || !has_stages,
                "weft: the mesh has the axis pp, and this model can't be cut into stages: derive it from decoder, or "
                "leave pp out of the mesh");
  static_assert(detail::can_be_followed<schedule, has_stages>(),
                "weft: the pipeline schedule leaves a micro-batch out, does one twice or out of order, or its stages "
                "wait for each other for ever");
  using model_type = std::conditional_t<staged, Model, detail::only_stage<Model>>;
  using pass_type = decltype(std::declval<model_type&>().begin_pass(std::declval<const ids&>()));
  struct ignore {
    template <class X>
    void operator()(X&) const {}
  };
  using stream = std::remove_cvref_t<decltype(std::declval<model_type&>().run_layers(
      std::declval<const pass_type&>(), std::declval<const ids&>(), ignore()))>;
  using loss_type = decltype(std::declval<const Loss&>()(
      std::declval<model_type&>().head(std::declval<const pass_type&>(), std::declval<const stream&>()),
      std::declval<const typename detail::targets_of<Model>::type&>()));

  static_assert(detail::is_loss<loss_type>,
                "weft: a loss returns loss{sum, count}: two scalars, of the losses of tokens and of how many they are");
  static_assert(detail::pending_alike<loss_type>,
                "weft: a loss's sum and count are pending over the same axes, or neither is: all_reduce<axis> both, or "
                "leave both to the trainer");

 public:
  using loss_tensor = decltype(loss_type::sum);

  pipeline(context& ctx, Model& model, const Loss& objective = {})
      : ctx_(ctx), model_(model), loss_(objective), stage_(stage()) {}

  /// A step: read(m) gives micro-batch m, with `tokens` and `targets`; its loss is multiplied by `seed` for the
  /// backward, after which done(m) is called. Every stage reads every micro-batch. Returns this rank's addends of the
  /// loss (see `finished`). Throws, before it begins, when the schedule doesn't do all that such a step takes on every
  /// stage, and at its end, when it did something else on this one.
  template <class Read, class Done>
  loss_sums train(int micro_batches, double seed, Read&& read, Done&& done) {
    check_schedule(micro_batches);
    require(detail::is_finite(seed) && seed != 0, "the loss is to be multiplied by ", seed,
            ", from which no gradient comes; give a finite number other than 0");
    require(!halfway_,
            "an earlier step of this pipeline ended with an error, and what its stages sent each other is still on its "
            "way: begin a new launch, or load and check a step's data before the step");
    halfway_ = stage_.count > 1;
    for (flight& f : flights_) f.forget();  // of a step that ended with an error
    loss_sums sums;
    stage_progress so_far;
    schedule::order(stage_.index, stage_.count, micro_batches, [&](pipeline_action a) {
      using enum pipeline_action::kind;
      if (a.micro_batch >= micro_batches || !so_far.take(a))
        refuse({schedule_fault::kind::not_due, stage_.index, a}, micro_batches);
      const scoped_span whole(ctx_.spans, "micro-batch", a.micro_batch);
      const scoped_value<std::int64_t> now(ctx_.micro_batch, a.micro_batch);
      if (a.what == forward) return run_forward(begin(a.micro_batch), read(a.micro_batch), sums);
      flight& f = find(a.micro_batch);
      const recording on(ctx_, &f.recorded);
      const scoped_span back(ctx_.spans, "backward");
      if (a.what == backward_weights) {
        f.recorded.backward_weights(ctx_);
      } else {
        begin_backward(f, seed);
        if (a.what == backward)
          f.recorded.backward(ctx_);
        else
          f.recorded.backward_inputs(ctx_);
        send_gradient_back(f);
      }
      if (a.what == backward_inputs) return;
      f.micro_batch = -1;
      done(a.micro_batch);
    });
    if (const schedule_fault f = detail::left_out(stage_.index, so_far, micro_batches)) refuse(f, micro_batches);
    for (flight& f : flights_) f.sent.wait();
    halfway_ = false;
    return sums;
  }

  /// The loss alone, nothing recorded: this rank's addends of it.
  template <class Read>
  loss_sums evaluate(int micro_batches, Read&& read) {
    const recording off(ctx_, nullptr);
    loss_sums sums;
    for (int m = 0; m < micro_batches; ++m) {
      const scoped_span forward(ctx_.spans, "forward");
      const scoped_value<std::int64_t> now(ctx_.micro_batch, m);
      pass_forward(
          read(m), ignore(), [&](loss_type&& l) { add(sums, l); }, [](request&& sent, const stream&) { sent.wait(); });
    }
    return sums;
  }

 private:
  // A micro-batch between its forward and its backward.
  struct flight {
    int micro_batch = -1;
    tape recorded;
    stream in, out;  // where a neighbour's end them
    loss_type loss;
    request sent;  // on, and later back

    void forget() {
      if (micro_batch < 0) return;
      recorded.clear();
      in = out = stream();
      loss = {};
      micro_batch = -1;
    }
  };

  stage_place stage() const {
    if constexpr (staged)
      return model_.stage();
    else
      return {};
  }

  // The compiler has tried a few sizes; this is the step's own.
  void check_schedule(int micro_batches) {
    if (micro_batches == checked_) return;
    require(micro_batches >= 1, "a step of ", micro_batches, " micro-batches trains nothing; it has at least 1");
    const auto n = static_cast<std::size_t>(stage_.count);
    std::vector<pipeline_action> list(n * 3 * static_cast<std::size_t>(micro_batches));
    std::vector<int> length(n), next(n);
    std::vector<stage_progress> done(n);
    if (const schedule_fault f =
            detail::follow<schedule>(stage_.count, micro_batches, list.data(), length.data(), next.data(), done.data()))
      refuse(f, micro_batches);
    checked_ = micro_batches;
  }
  [[noreturn]] void refuse(const schedule_fault& f, int micro_batches) const {
    detail::fail_of_schedule(schedule::name, f, stage_.count, micro_batches);
  }

  flight& find(int micro_batch) {
    for (flight& f : flights_)
      if (f.micro_batch == micro_batch) return f;
    fail("micro-batch ", micro_batch, " is not in flight on stage ", stage_.index, ": the schedule ",
         std::string_view(schedule::name), " takes it back before it went forward");
  }
  flight& begin(int micro_batch) {
    for (flight& f : flights_)
      if (f.micro_batch < 0) {
        f.sent.wait();
        f.micro_batch = micro_batch;
        return f;
      }
    flight& f = flights_.emplace_back();
    f.micro_batch = micro_batch;
    return f;
  }

  static void add(loss_sums& sums, const loss_type& l) {
    sums.sum += static_cast<double>(detail::local_item(l.sum));
    sums.count += static_cast<double>(detail::local_item(l.count));
  }

  // This stage's part of a forward pass. entered(x): x was received; ended(loss), or sent(request, x) where it goes
  // on.
  template <class Batch, class Entered, class Ended, class Sent>
  void pass_forward(const Batch& batch, Entered&& entered, Ended&& ended, Sent&& sent) {
    const auto pass = model_.begin_pass(batch.tokens);
    const stream x = model_.run_layers(pass, batch.tokens, entered);
    if (stage_.last()) return ended(loss_(model_.head(pass, x), batch.targets));
    if constexpr (has_stages) sent(send<movement::shift>(x), x);
  }

  template <class Batch>
  void run_forward(flight& f, const Batch& batch, loss_sums& sums) {
    const scoped_span forward(ctx_.spans, "forward");
    const recording on(ctx_, &f.recorded);
    pass_forward(
        batch,
        [&]([[maybe_unused]] stream& x) {
          if constexpr (has_stages) f.in = x.requires_grad(&ctx_.records);  // without, it may be token ids
        },
        [&](loss_type&& l) {
          add(sums, l);
          f.loss = std::move(l);
        },
        [&](request&& sent, const stream& x) {
          f.sent = std::move(sent);
          f.out = x;
        });
  }

  void begin_backward(flight& f, double seed) {
    if (stage_.last()) {
      detail::seed_loss(f.loss.sum, seed);
      f.loss = {};
      return;
    }
    if constexpr (has_stages) {
      using gradient = typename stream::gradient_type;
      detail::require_recorded("a stage's output", f.out);
      slot& s = *f.out.slot;
      s.gradient = receive<movement::shift_back, gradient>(ctx_, f.out.whole).data;
      s.has_gradient = true;
      f.sent.wait();  // the next stage has had it
      f.out = {};
    }
  }
  void send_gradient_back(flight& f) {
    if (stage_.first()) return;
    if constexpr (has_stages) {
      using gradient = typename stream::gradient_type;
      require(f.in.has_grad(), "the loss does not depend on what stage ", stage_.index,
              " received, so there is no gradient to send back");
      f.in.data = f.in.slot->gradient;  // lives until it is sent
      f.sent = send<movement::shift_back>(gradient(value{&ctx_, f.in.whole, f.in.data, {}}));
      f.in.slot = {};
    }
  }

  context& ctx_;
  std::conditional_t<staged, Model&, detail::only_stage<Model>> model_;
  Loss loss_;
  stage_place stage_;
  std::deque<flight> flights_;
  bool halfway_ = false;  // in a step of several stages, or in one that ended with an error
  int checked_ = -1;      // micro-batches of a step that the schedule is known to do whole
};

}  // namespace weft
