// The trainer: the one place where all policies meet. It owns what a model's parameters are stored in, and turns
// batches into steps. Invariant: a loss and its gradients are sums over tokens until the global count of tokens divides
// them, so unequal counts on ranks or in micro-batches can't skew the mean.
#pragma once

#include <weft/core/scoped_value.hpp>
#include <weft/io/text_dataset.hpp>
#include <weft/optim/decide_step.hpp>
#include <weft/parallel/metrics.hpp>
#include <weft/parallel/parameter_store.hpp>
#include <weft/parallel/pipeline.hpp>
#include <weft/train/given_steps.hpp>
#include <weft/train/graphed_steps.hpp>
#include <weft/train/loop.hpp>
#include <weft/train/store_monitor.hpp>
#include <weft/train/trainer_state.hpp>

namespace weft {

/// A model that a trainer takes: `using strategy`, `using ids`, logits from `model(ids)`, its parameters in registry(),
/// use(unit_hooks&) and release(); where its targets are of another type than its inputs, `using targets`. Data: as
/// text_dataset, `train<ids>(step, first, count, seq)`, or with the batch behind it, `validation<ids>(first, count,
/// seq)` and `can_validate(seq)`.
/// An optimizer and a loss of one's own: `trainer(ctx, model, my_optimizer{...}, my_loss{...})`, an optimizer_policy
/// and a callable as token_cross_entropy; they work under every sharding policy (examples/05_own_training.cpp). Behind
/// them metrics of held-out text: metric_list{token_accuracy{}, ...}.
template <class Model, class Optimizer = adamw, class Loss = token_cross_entropy, class Metrics = metric_list<>>
class trainer {
  static_assert(detail::ask_optimizer<Optimizer>());

 public:
  using strategy = typename Model::strategy;
  using ids = typename Model::ids;
  using store_type = parameter_store<typename ids::backend, typename strategy::precision>;

  /// Allocates and initialises the parameters, each rank its own. The weights live as long as the trainer does; the
  /// model has to outlive it.
  trainer(context& ctx, Model& model, const Optimizer& optimizer = {}, const Loss& objective = {},
          const Metrics& metrics = {})
      : ctx_(ctx),
        model_(model),
        optimizer_(optimizer),
        decided_(ctx),
        pipeline_(ctx, model, objective),
        metrics_(ctx, metrics),
        store_(ctx, model.registry(), config_of<typename strategy::sharding, Optimizer>(), {}),
        lives_(model.registry().watched()) {
    if constexpr (requires { check(optimizer); }) check(optimizer);
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
    detail::require_model(lives_);
    require(trains_, "every parameter of the model is frozen: freeze fewer of them, before the trainer is made");
    require(!runs_, "run() is called within a run of this trainer, by a callback say: call it when that has ended");
    const scoped_value<bool> running(runs_, true);
    if constexpr (requires { model_.config().max_seq; })
      if (plan.seq == 0) plan.seq = model_.config().max_seq;
    check(plan, shards_of<layout_of<ids>, batch>(ctx_));
    decided_.forget();
    run_of<Data> work(*this, data, plan);
    return train_loop(ctx_, work, plan, optimizer_.lr);
  }

  /// How far training has come, beside what the store holds. As store() and model() it throws once the model has ended.
  trainer_state state() const {
    detail::require_model(lives_);
    return {updates_, batches_, pipeline_.recorded_passes(), scale_.value(), scale_.good(), scale_.skipped(), watched_};
  }
  /// Goes on from there. Throws weft::failure where a count is below 0.
  void resume(const trainer_state& s) {
    check(s), updates_ = s.updates, batches_ = s.batches, watched_ = s.watched;
    scale_.resume(s.loss_scale, s.good_steps, s.skipped_steps), pipeline_.recorded_passes(s.passes);
  }

  store_type& store() { return detail::require_model(lives_), store_; }
  Model& model() { return detail::require_model(lives_), model_; }
  const Optimizer& optimizer() const { return optimizer_; }

 private:
  using backend = typename ids::backend;
  template <class Data>
  class run_of final : public trainable {
   public:
    run_of(trainer& owner, const Data& data, const training& plan)
        : owner_(owner),
          data_(data),
          plan_(plan),
          each_(plan.batch / plan.micro_batches),
          before_(owner.batches_ - plan.begin) {}

    std::int64_t steps_before() const override { return owner_.updates_; }
    bool runs_ahead() const override { return detail::reads_late<backend> && detail::of_kernels<Optimizer>; }
    int under_way() const override { return given_.unread(); }
    void gradients(std::int64_t step) override {
      if (!observed_) graph_.begin();
      context& ctx = owner_.ctx_;
      const observing looking(ctx, observed_ ? &meter_ : ctx.observer);
      auto scale = owner_.scale_;
      if (given_.unread() > 0) scale.accept(true);  // else this step isn't taken
      given_.now = {step, owner_.pipeline_.recorded_passes(), scale.value()};
      owner_.store_.begin_step(plan_.micro_batches);
      loss_ = &owner_.pipeline_.train(
          plan_.micro_batches, scale.value(),
          [&](int m) {
            return read([&] {
              return detail::training_batch<ids>(data_, before_ + step, m * each_, each_, plan_.seq, plan_.batch);
            });
          },
          [&](int) { owner_.store_.end_micro_batch(); });
      const scoped_span finish(ctx.spans, "finish gradients");
      owner_.store_.finish_gradients({});
      loss_->template finish<loss_tensor>({});
    }
    void update(const step_rule& rule) override {
      {
        const scoped_span norm(owner_.ctx_.spans, "gradient norm");
        owner_.decided_.decide(loss_->in_memory(), owner_.store_.squared_norm({}), rule.clip_norm,
                               given_.now.loss_scale);
      }
      const scoped_span update(owner_.ctx_.spans, "optimizer");
      owner_.store_.update(owner_.optimizer_, {rule.number, rule.lr, owner_.decided_.grad_scale()}, {});
      owner_.decided_.fetch();
      given_.given();
      graph_.launch();
    }
    step_outcome outcome() override {
      const detail::step_numbers is = owner_.decided_.read();
      const bool taken = !detail::is_nan(is.grad_scale);
      owner_.updates_ += taken;
      if (given_.heard(taken)) {
        owner_.pipeline_.recorded_passes(given_.forgotten().passes);
        owner_.decided_.forget();
      }
      owner_.batches_ = before_ + given_.last.step;
      return {{is.loss, is.count}, is.gradient_norm, taken};
    }
    double loss_scale() const override { return owner_.scale_.value(); }
    bool accept(bool finite) override { return owner_.scale_.accept(finite); }

    loss_sums validate() override {
      if (plan_.validation_sequences <= 0 || !data_.can_validate(plan_.seq)) return {};
      const auto passes = static_cast<int>((plan_.validation_sequences - 1) / each_ + 1);
      auto& sums = owner_.metrics_.evaluate(owner_.pipeline_, passes, [&](int m) {
        return read([&] { return data_.template validation<ids>(m * each_, each_, plan_.seq); });
      });
      sums.template finish<loss_tensor>({});
      return sums;
    }
    std::vector<metric_value> metrics() override { return owner_.metrics_.finish(); }
    watch_state& watched() override { return owner_.watched_; }
    std::vector<std::string> unit_names() const override {
      std::vector<std::string> names;
      for (const parameter_unit& u : owner_.model_.registry().units()) names.push_back(u.name);
      return names;
    }

    void observe(bool on) override {
      observed_ = on;
      measured_.clear();
    }
    std::vector<unit_statistics> statistics() override {
      const double count = loss_sums(*loss_).count, scale = count > 0 ? 1 / count / given_.now.loss_scale : 0;
      detail::measure_stored(owner_.ctx_, owner_.store_, scale, measured_, statistics_of<backend>);
      return measured_.gather(owner_.ctx_);
    }
    std::string locate(std::int64_t) override {
      observe(false);
      fault_finder finder(owner_.ctx_, owner_.model_.registry(), statistics_of<backend>);
      again(&finder);
      return detail::conclusion_of(finder, owner_.ctx_, owner_.store_, statistics_of<backend>);
    }
    zeroed_elements zero_not_finite() override {
      // Used up, or those of a step that was begun behind it.
      if (given_.now.updated || given_.now.step != given_.last.step) again(owner_.ctx_.observer);
      return detail::zero_not_finite(owner_.ctx_, owner_.store_, detail::zero_kernel<store_type>);
    }

   private:
    // Gives the gradients of the last step that was heard of once more, with the masks of the first time.
    void again(unit_observer* who) {
      const observing looking(owner_.ctx_, who);
      const scoped_value<bool> one_by_one(graph_.off, true);
      owner_.pipeline_.recorded_passes(given_.last.passes);
      gradients(given_.last.step);
    }
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
    detail::given_steps given_;
    detail::graphed_steps<backend> graph_{owner_.ctx_, plan_.step_graph};
    typename pipeline<Model, Loss>::loss_place* loss_ = nullptr;  // theirs
    measured_parts measured_;
    activation_meter meter_{owner_.ctx_, owner_.model_.registry(), measured_, statistics_of<backend>};
    bool observed_ = false;
  };

  context& ctx_;
  Model& model_;
  Optimizer optimizer_;
  detail::decided_step<backend> decided_;
  pipeline<Model, Loss> pipeline_;
  detail::metric_sums<Metrics, pipeline<Model, Loss>> metrics_;
  store_type store_;
  watch lives_;  // the model
  const bool trains_ = detail::some_stage_trains(ctx_, model_.registry().trains());
  bool runs_ = false;
  loss_scale scale_ = detail::initial_scale<typename strategy::precision>();
  std::int64_t updates_ = 0, batches_ = 0;  // of the weights, and computed: over all runs
  watch_state watched_;
};

template <class Model, class Optimizer, class Loss, class Metrics>
requires(!detail::trainable_model<Model>) class trainer<Model, Optimizer, Loss, Metrics> {
  static_assert(
      detail::trainable_model<Model>,
      "weft: a trainer's model says 'using strategy = S;' and 'using ids = token_ids<S>;', the type of what it reads");

 public:
  trainer(context&, Model&, const Optimizer& = {}, const Loss& = {}, const Metrics& = {}) {}
};

}  // namespace weft
