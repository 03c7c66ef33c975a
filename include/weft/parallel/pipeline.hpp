// The pipeline: runs a step's micro-batches through this rank's virtual stages in the order that the schedule policy
// says, sending activations on to the next stage and gradients back to the one before. With one stage it is the loop
// over micro-batches. Invariant: each micro-batch in flight has a tape of its own for each chunk; what it computes
// depends on the step and its number, not on when its turn comes.
#pragma once

#include <weft/core/finite.hpp>
#include <weft/parallel/flights.hpp>
#include <weft/parallel/loss_sums.hpp>
#include <weft/parallel/stage.hpp>

namespace weft {

/// Source: PipeDream-Flush (Narayanan et al. 2021); the backward's two parts: Zero Bubble (Qi et al. 2023).
template <class Model, class Loss = token_cross_entropy>
class pipeline {
  using types = detail::stage_types<Model, Loss>;
  using schedule = typename types::schedule;
  using model_type = typename types::model;
  using stream = typename types::stream;
  using loss_type = typename types::loss;
  using all_flights = detail::flights<stream, loss_type>;
  using flight = typename all_flights::flight_type;
  static constexpr bool has_stages = types::has_stages;
  static constexpr bool several_chunks = (chunks_of<schedule>) != 1;
  // Whether the model counts its recorded passes.
  static constexpr bool counts_passes = requires(Model & m) { m.recorded_passes(m.recorded_passes()); };

 public:
  using loss_tensor = decltype(loss_type::sum);
  using loss_place = queued_loss<typename loss_tensor::backend>;
  using logits = typename types::logits;
  using targets = typename types::targets;

  pipeline(context& ctx, Model& model, const Loss& objective = {})
      : ctx_(ctx), source_(model), model_(model), loss_(objective), stages_(places()), sums_(ctx) {}

  /// A step: read(m) gives micro-batch m, with `tokens` and `targets`; its loss is multiplied by `seed` for the
  /// backward, after which done(m) is called. Every rank reads every micro-batch, once for each of its chunks. Returns
  /// this rank's addends of the loss (see `finished`), in memory until the next call: as `loss_sums` they are read,
  /// which waits for the queue, and nothing else here does. Throws, before it begins, when the schedule doesn't do all
  /// that such a step takes on every stage, and at its end, when it did something else on this one. Micro-batch m is
  /// the recorded pass after the m that it begins with, on every stage and in any order.
  template <class Read, class Done>
  loss_place& train(int micro_batches, double seed, Read&& read, Done&& done) {
    require(detail::is_finite(seed) && seed != 0, "the loss is to be multiplied by ", seed,
            ", from which no gradient comes; give a finite number other than 0");
    require(!halfway_,
            "an earlier step of this pipeline ended with an error, and what its stages sent each other is still on its "
            "way: begin a new launch, or load and check a step's data before the step");
    check_schedule(micro_batches);
    halfway_ = ranks() > 1;
    flights_.forget();  // of a step that ended with an error
    sums_.clear();
    stage_progress so_far[static_cast<std::size_t>(chunks_of<schedule>)];
    const std::uint64_t passes = recorded_passes();
    schedule::order(rank(), ranks(), micro_batches, [&](pipeline_action a) {
      using enum pipeline_action::kind;
      const bool known = detail::is_known<schedule>(a, micro_batches);
      if (!known || !so_far[a.chunk].take(a)) refuse({schedule_fault::kind::not_due, rank(), a}, micro_batches);
      const scoped_span whole(ctx_.spans, "micro-batch", a.micro_batch);
      const scoped_value<std::int64_t> now(ctx_.micro_batch, a.micro_batch);
      if (a.what == forward) {
        flight& f = flights_.begin(a.micro_batch, a.chunk);
        auto&& batch = read(a.micro_batch);
        const recording on(ctx_, &f.recorded);
        recorded_passes(passes + static_cast<std::uint64_t>(a.micro_batch));
        const scoped_value<std::int64_t> pass(ctx_.pass, static_cast<std::int64_t>(passes) + a.micro_batch);
        stream handed = handed_to(f);
        return pass_forward(batch, a.chunk, handed, &f, loss_);
      }
      flight& f = flights_.find(a.micro_batch, a.chunk);
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
      for (const stage_progress& p : so_far)
        if (p.weights <= a.micro_batch) return;  // to come back in another chunk
      done(a.micro_batch);
    });
    for (int c = 0; c < chunks_of<schedule>; ++c)
      if (const schedule_fault f = detail::left_out(rank(), c, so_far[c], micro_batches)) refuse(f, micro_batches);
    recorded_passes(passes + static_cast<std::uint64_t>(micro_batches));
    flights_.land(ctx_.order());
    halfway_ = false;
    return sums_;
  }

  /// The micro-batches of all steps so far, which number their masks of dropout: what the model says, where it counts
  /// its recorded passes itself, as a decoder. A run that goes on where another ended sets it to what that one had.
  std::uint64_t recorded_passes() const {
    if constexpr (counts_passes) return source_.recorded_passes();
    return passes_;
  }
  void recorded_passes(std::uint64_t n) {
    if constexpr (counts_passes)
      source_.recorded_passes(n);
    else
      passes_ = n;
  }

  const Loss& objective() const { return loss_; }
  /// The loss alone, nothing recorded: this rank's addends of it. by: another callable that gives back such a loss.
  template <class Read, class Objective = Loss>
  loss_place& evaluate(int micro_batches, Read&& read, const Objective& by) {
    const no_grad off(ctx_);
    sums_.clear();
    for (int m = 0; m < micro_batches; ++m) {
      const scoped_value<std::int64_t> now(ctx_.micro_batch, m);
      auto&& batch = read(m);
      stream handed;
      for (int v = 0; v < stages_.count(); ++v)
        if (const int chunk = stages_.chunk_at(v); chunk >= 0) pass_forward(batch, chunk, handed, nullptr, by);
    }
    return sums_;
  }
  template <class Read>
  loss_place& evaluate(int micro_batches, Read&& read) {
    return evaluate(micro_batches, read, loss_);
  }

 private:
  stage_places places() const {
    if constexpr (types::staged) return source_.stages();
    return {};
  }
  int rank() const { return stages_[0].rank; }
  int ranks() const { return stages_.count() / chunks_of<schedule>; }
  bool is_here(int rank) const { return !types::has_pp || rank == this->rank(); }

  // The compiler has tried a few sizes; this is the step's own.
  void check_schedule(int micro_batches) {
    if (micro_batches == checked_) return;
    require(micro_batches >= 1, "a step of ", micro_batches, " micro-batches trains nothing; it has at least 1");
    flights_.set_room(chunks_of<schedule>, detail::check_schedule<schedule>(ranks(), micro_batches));
    checked_ = micro_batches;
  }
  [[noreturn]] void refuse(const schedule_fault& f, int micro_batches) const {
    detail::fail_of_schedule(schedule::name, f, ranks(), micro_batches, chunks_of<schedule>);
  }

  // What the virtual stage before has left for f on this rank; nothing where it is on another, or there is none.
  stream handed_to([[maybe_unused]] const flight& f) {
    if constexpr (several_chunks) {
      const stage_place& at = stages_[f.chunk];
      if (!at.first() && is_here(at.before)) {
        const flight& before = flights_.find(f.micro_batch, stages_.chunk_at(at.index - 1));
        return stream(value{&ctx_, untyped(before.out).whole, untyped(before.out).data, {}});
      }
    }
    return {};
  }

  // A chunk's part of a forward pass, of `handed` where the stage before is on this rank; what its backward takes is
  // left in f, where there is to be one, and otherwise in `handed` what the next stage on this rank takes.
  template <class Batch, class Objective>
  void pass_forward(const Batch& batch, int chunk, stream& handed, flight* f, const Objective& objective) {
    const scoped_span forward(ctx_.spans, "forward");
    const stage_place& at = stages_[chunk];
    const auto pass = model_.begin_pass(batch.tokens);
    const bool local = has_stages && !at.first() && is_here(at.before);
    stream x = local ? std::move(handed) : stream(model_.stage_input(pass, batch.tokens, chunk));
    if constexpr (has_stages)
      if (f && !at.first())  // its gradient alone is asked for; without stages it may be token ids
        f->in = stream(value{&ctx_, untyped(x).whole, {}, untyped(x.requires_grad(&ctx_.records)).slot});
    x = model_.run_layers(pass, std::move(x), chunk);
    if (at.last()) {
      loss_type l = types::loss_of(model_, objective, pass, x, batch.targets);
      sums_.add(l.sum, l.count);
      if (f) f->loss = std::move(l);
    } else if constexpr (has_stages) {
      if (is_here(at.after)) {
        (f ? f->out : handed) = std::move(x);
        return;
      }
      request sent = send<movement::shift>(x, at.index, at.after);
      if (!f) return sent.wait(ctx_.order());
      f->sent = std::move(sent);
      f->out = std::move(x);
    }
  }

  void begin_backward(flight& f, double seed) {
    const stage_place& at = stages_[f.chunk];
    if (!at.first()) flights_.make_room(f, ctx_.order());
    if (at.last()) {
      detail::seed_loss(f.loss.sum, seed);
      f.loss = {};
      return;
    }
    if constexpr (has_stages) {
      using gradient = typename stream::gradient_type;
      detail::require_recorded("a stage's output", untyped(f.out));
      if (!is_here(at.after)) {
        collect(
            f.out,
            untyped(receive<movement::shift_back, gradient>(ctx_, untyped(f.out).whole, at.index + 1, at.after)).data);
        f.sent.wait(ctx_.order());  // the next stage has had it
      }
      f.out = {};
    }
  }
  // The gradient of a stage's output; of one in which nothing is trained nobody wants it.
  static void collect(const stream& out, local_array gradient) {
    if (!untyped(out).slot) return;
    untyped(out).slot->gradient = std::move(gradient);
    untyped(out).slot->has_gradient = true;
  }
  void send_gradient_back(flight& f) {
    const stage_place& at = stages_[f.chunk];
    if (at.first()) return;
    if constexpr (has_stages) {
      using gradient = typename stream::gradient_type;
      require(f.in.has_grad(), "the loss does not depend on what stage ", at.index,
              " received, so there is no gradient to send back");
      local_array g = untyped(f.in).slot->gradient;
      if (is_here(at.before)) {
        collect(flights_.find(f.micro_batch, stages_.chunk_at(at.index - 1)).out, std::move(g));
      } else {
        flights_.give_back(f, std::move(g), [&](const local_array& kept) {
          return send<movement::shift_back>(gradient(value{&ctx_, untyped(f.in).whole, kept, {}}), at.index, at.before);
        });
      }
      f.in = {};
    }
  }

  context& ctx_;
  Model& source_;
  std::conditional_t<types::staged, Model&, model_type> model_;
  Loss loss_;
  stage_places stages_;
  all_flights flights_;
  loss_place sums_;
  std::uint64_t passes_ = 0;  // where the model doesn't count them
  bool halfway_ = false;      // in a step of several ranks, or in one that ended with an error
  int checked_ = -1;          // micro-batches of a step that the schedule is known to do whole
};

}  // namespace weft
