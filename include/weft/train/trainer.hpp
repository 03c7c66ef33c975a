// The trainer: the one place where all policies meet. It owns what a model's parameters are stored in, and turns
// batches into steps. Invariant: a loss and its gradients are sums over tokens until the global count of tokens divides
// them, so unequal counts on ranks or in micro-batches can't skew the mean.
#pragma once

#include <weft/io/text_dataset.hpp>
#include <weft/optim/loss_scale.hpp>
#include <weft/parallel/parameter_store.hpp>
#include <weft/parallel/pipeline.hpp>
#include <weft/policy/precision.hpp>
#include <weft/train/loop.hpp>
#include <weft/train/store_monitor.hpp>

namespace weft {

/// A model that a trainer takes: `using strategy`, `using ids`, logits from `model(ids)`, its parameters in registry(),
/// use(unit_hooks&) and release(); where its targets are of another type than its inputs, `using targets`. Data: as
/// text_dataset, `train<ids>(step, first, count, seq)` and `validation<ids>(first, count, seq)`.
/// An optimizer and a loss of one's own: `trainer(ctx, model, my_optimizer{...}, my_loss{...})`, an optimizer_policy
/// and a callable as token_cross_entropy; they work under every sharding policy (examples/05_own_training.cpp).
template <class Model, class Optimizer = adamw, class Loss = token_cross_entropy>
class trainer {
  static constexpr bool is_adamw = std::is_same_v<Optimizer, adamw>;
  static_assert(is_adamw || optimizer_policy<Optimizer>,
                "weft: a trainer's optimizer is adamw, or has `static constexpr int moments`, `lr` and update(share, "
                "step) const: see optimizer_policy");

 public:
  using strategy = typename Model::strategy;
  using ids = typename Model::ids;
  using store_type = parameter_store<typename ids::backend, typename strategy::precision>;

  /// Allocates and initialises the parameters, each rank its own. The weights live as long as the trainer does; the
  /// model has to outlive it.
  trainer(context& ctx, Model& model, const Optimizer& optimizer = {}, const Loss& objective = {})
      : ctx_(ctx),
        model_(model),
        optimizer_(optimizer),
        pipeline_(ctx, model, objective),
        store_(ctx, model.registry(), config()),
        lives_(model.registry().watched()) {
    if constexpr (is_adamw) check(optimizer);
    model.use(store_);
  }
  ~trainer() {
    if (lives_.alive()) model_.release();
  }
  trainer(const trainer&) = delete;
  trainer& operator=(const trainer&) = delete;

  /// Trains. All ranks call it with the same plan. A further run goes on from the last one's weights and moments, with
  /// the batch after its last; its steps and schedule are its own plan's. Throws weft::failure when the batch doesn't
  /// divide, the text is too short, or a loss or gradient is not finite, unless plan.watch says otherwise. From the
  /// third step on a step takes no memory from the system, on the host's backend with ranks as threads: neither the
  /// arena nor operator new. Log lines, statistics, validation and traces are not part of the step.
  template <class Data>
  training_result run(const Data& data, training plan = {}) {
    require(lives_.alive(), "the trainer's model was destroyed: a model has to outlive its trainer");
    if constexpr (requires { model_.config().max_seq; }) {
      if (plan.seq == 0) plan.seq = model_.config().max_seq;
    }
    const int shares = shards_of<layout_of<ids>, batch>(ctx_);
    require(plan.seq >= 1, "seq is ", plan.seq,
            "; a sequence has at least 1 token, and 0 stands for the model's max_seq");
    require(plan.micro_batches >= 1, "micro_batches is ", plan.micro_batches, "; a step has at least 1");
    require(plan.batch >= 1 && plan.batch % (static_cast<std::int64_t>(plan.micro_batches) * shares) == 0,
            "a batch of ", plan.batch, " sequences doesn't divide into ", plan.micro_batches, " micro-batches on ",
            shares, " data-parallel ranks; choose a multiple of ",
            static_cast<std::int64_t>(plan.micro_batches) * shares);
    run_of<Data> work(*this, data, plan);
    return train_loop(ctx_, work, plan, optimizer_.lr);
  }

  store_type& store() { return store_; }
  Model& model() { return model_; }
  const Optimizer& optimizer() const { return optimizer_; }

 private:
  template <class Data>
  class run_of final : public trainable {
   public:
    run_of(trainer& owner, const Data& data, const training& plan)
        : owner_(owner), data_(data), plan_(plan), each_(plan.batch / plan.micro_batches), before_(owner.batches_) {}

    std::int64_t steps_before() const override { return owner_.updates_; }
    loss_sums gradients(std::int64_t step) override {
      context& ctx = owner_.ctx_;
      const observing looking(ctx, observed_ ? &meter_ : ctx.observer);
      if constexpr (counts_passes) passes_ = owner_.model_.recorded_passes();
      owner_.store_.begin_step(plan_.micro_batches);
      used_ = owner_.scale_.value();
      const loss_sums sums = owner_.pipeline_.train(
          plan_.micro_batches, used_,
          [&](int m) {
            return read([&] { return data_.template train<ids>(before_ + step, m * each_, each_, plan_.seq); });
          },
          [&](int) { owner_.store_.end_micro_batch(); });
      const scoped_span finish(ctx.spans, "finish gradients");
      owner_.store_.finish_gradients();
      owner_.batches_ = before_ + step;
      return finished<loss_tensor>(ctx, sums);
    }
    double gradient_norm() override {
      const scoped_span norm(owner_.ctx_.spans, "gradient norm");
      return owner_.store_.gradient_norm() / used_;
    }
    double loss_scale() const override { return owner_.scale_.value(); }
    bool accept(double norm) override { return owner_.scale_.accept(detail::is_finite(norm)); }
    void update(const optimizer_step& step) override {
      const double scale = step.grad_scale / used_;
      if constexpr (is_adamw)
        owner_.store_.step(owner_.optimizer_.at(step.number, step.lr, scale));
      else
        owner_.store_.update(owner_.optimizer_, optimizer_step{step.number, step.lr, scale});
      ++owner_.updates_;
    }

    loss_sums validate() override {
      if (plan_.validation_sequences <= 0 || !data_.can_validate(plan_.seq)) return {};
      const auto passes = static_cast<int>((plan_.validation_sequences + each_ - 1) / each_);
      const loss_sums sums = owner_.pipeline_.evaluate(passes, [&](int m) {
        return read([&] { return data_.template validation<ids>(m * each_, each_, plan_.seq); });
      });
      return finished<loss_tensor>(owner_.ctx_, sums);
    }
    std::vector<std::string> unit_names() const override {
      std::vector<std::string> names;
      for (const parameter_unit& u : owner_.model_.registry().units()) names.push_back(u.name);
      return names;
    }

    std::size_t scratch_bytes() const override {
      const auto& queue = owner_.ctx_.template queue<backend>();
      if constexpr (requires { queue.scratch_bytes(); })
        return queue.scratch_bytes();
      else
        return 0;
    }

    void observe(bool on) override {
      observed_ = on;
      measured_.clear();
    }
    std::vector<unit_statistics> statistics(double gradient_scale) override {
      gradient_scale /= used_;
      measure_stored<backend>(owner_.ctx_, owner_.store_, owner_.model_.registry(), gradient_scale, measured_);
      return measured_.gather(owner_.ctx_);
    }
    std::string locate(std::int64_t step) override {
      if constexpr (counts_passes) owner_.model_.recorded_passes(passes_);  // the masks of the first time
      observe(false);
      fault_finder<backend> finder(owner_.ctx_, owner_.model_.registry());
      {
        const observing looking(owner_.ctx_, &finder);
        gradients(step);
      }
      std::string where = finder.conclusion();
      if (where.empty()) where = fault_in_sums<backend>(owner_.ctx_, owner_.store_);
      if (!where.empty()) return where;
      return detail::is_finite(gradient_norm()) ? "not seen again when the step was computed once more"
                                                : "though every gradient is finite: their squares are too large";
    }
    zeroed_elements zero_not_finite() override {
      return weft::zero_not_finite<backend>(owner_.ctx_, owner_.store_, owner_.model_.registry());
    }

   private:
    using backend = typename ids::backend;
    // Whether the model's passes are numbered, for masks of dropout.
    static constexpr bool counts_passes = requires(Model & m) { m.recorded_passes(m.recorded_passes()); };

    template <class Read>
    auto read(Read&& next) const {
      const scoped_span reading(owner_.ctx_.spans, "data");
      return next();
    }
    using loss_tensor = typename pipeline<Model, Loss>::loss_tensor;

    trainer& owner_;
    const Data& data_;
    const training& plan_;
    std::int64_t each_, before_;  // sequences of a micro-batch; batches of the runs before
    double used_ = 1;             // the loss scale of the gradients in the store
    measured_parts measured_;
    activation_meter<backend> meter_{owner_.ctx_, owner_.model_.registry(), measured_};
    bool observed_ = false;
    std::uint64_t passes_ = 0;  // of the model before this step
  };

  static store_config config() {
    store_config c = config_of<typename strategy::sharding>();
    if constexpr (!is_adamw) c.moments = Optimizer::moments;
    return c;
  }

  context& ctx_;
  Model& model_;
  Optimizer optimizer_;
  pipeline<Model, Loss> pipeline_;
  store_type store_;
  watch lives_;  // the model
  static loss_scale initial_scale() {
    constexpr double initial = initial_loss_scale<typename strategy::precision>;
    if constexpr (initial > 0)
      return loss_scale(initial);
    else
      return {};
  }
  loss_scale scale_ = initial_scale();
  std::int64_t updates_ = 0;  // of the weights, over all runs
  std::int64_t batches_ = 0;  // that were computed, over all runs
};

}  // namespace weft
