// A model, an optimizer and a loss of one's own, under every sharding policy: bytes that count up by 7, learned by a
// small network with SGD and momentum. All policies print the loss of one rank, up to rounding.
#include <cmath>
#include <cstdio>

#include <weft/weft.hpp>
using namespace weft;

// One number is kept for each element of a weight: its velocity. What `p` spans is what this rank stores.
struct momentum_sgd {
  static constexpr int moments = 1;
  double lr = 0.2, momentum = 0.9;

  void update(auto& p, const optimizer_step& step) const {
    for (std::size_t i = 0; i < p.weight.size(); ++i) {
      auto& velocity = p.moments[0][i];
      using T = std::remove_reference_t<decltype(velocity)>;
      velocity = T(momentum) * velocity + T(step.grad_scale) * T(p.gradient[i]);
      p.weight[i] -= T(step.lr) * velocity;
    }
  }
};

// Smoothed labels, and the z-loss of PaLM, which keeps the softmax's denominator near 1.
struct smoothed_loss {
  double smoothing = 0.1, z = 1e-3;

  template <any_tensor L, any_tensor T>
  auto operator()(const L& logits, const T& targets) const {
    using wide = accumulate_t<typename L::element_type>;  // float for bf16
    const auto nats = cross_entropy(logits, targets, {.label_smoothing = smoothing});
    const auto log_z = log(all_reduce<tp>(sum<vocab>(exp(cast<wide>(logits)))));  // [batch/dp, seq]
    return loss{nats.sum + z * sum(square(log_z)), nats.count};
  }
};

template <class S>
class small_model : public model_base<S> {
  using base = model_base<S>;

 public:
  explicit small_model(context& ctx) : base(ctx) {
    parameter_registry& all = base::registry();
    embedding_unit_ = all.begin_unit("embedding");
    all.add(ctx, table_, "table", {2, {256, 32}}, {0.3});
    block_unit_ = all.begin_unit("block");
    block_.add_to(all, ctx, "block.", 32, 64, 0.2, 0.2);
    all.add(ctx, gain_, "block.gain", {1, {32}}, {0, 0.5});
    head_unit_ = all.begin_unit("head");
    all.add(ctx, head_, "head", {2, {256, 32}}, {0.2});
  }

  auto operator()(const token_ids<S>& tokens) {
    const auto embedded = [&](const auto& t) { return all_reduce<tp>(embedding(t, table_)); };
    const auto block = [&](const auto& x) { return x + all_reduce<tp>(block_(x)) * gain_; };
    const auto head = [&](const auto& x) { return contract<hidden>(x, head_); };  // [batch/dp, seq, vocab/tp]
    const auto x = base::run_unit(embedding_unit_, embedded, tokens);
    return base::run_unit(head_unit_, head, base::run_unit(block_unit_, block, x));
  }

 private:
  int embedding_unit_, block_unit_, head_unit_;
  weight<S, dims<vocab, hidden>, shard<vocab, tp>> table_, head_;
  mlp<S> block_;
  weight<S, dims<hidden>> gain_;
};

struct counting {
  context* ctx;

  template <class Ids>
  token_batch<Ids> train(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t seq) const {
    const philox numbers{ctx->seed, std::uint64_t(step)};
    const auto shifted = [&](std::int64_t by) {
      return generate<Ids>(*ctx, {count, seq}, [&](std::int64_t i) {
        return (numbers.word(std::uint64_t(first + i / seq)) + 7 * std::uint64_t(i % seq + by)) % 256;
      });
    };
    return {shifted(0), shifted(1)};
  }
  template <class Ids>
  token_batch<Ids> validation(std::int64_t first, std::int64_t count, std::int64_t seq) const {
    return train<Ids>(0, first, count, seq);
  }
  bool can_validate(std::int64_t) const { return true; }
};

// Returns the last step's loss.
template <class S>
double train(const degrees& ranks, std::int64_t steps = 150) {
  double last = 0;
  launch<S>(ranks, [&](context& ctx) {
    small_model<S> model(ctx);
    trainer training(ctx, model, momentum_sgd{.lr = 0.4}, smoothed_loss{});
    const auto falling = [](std::int64_t step, std::int64_t of) { return 1 - double(step) / double(of); };
    const auto r = training.run(
        counting{&ctx},
        {.steps = steps, .batch = 16, .micro_batches = 2, .seq = 8, .own_schedule = falling, .print = false});
    if (!ctx.is_first()) return;
    last = r.loss;
    std::printf("%-10s dp %d x tp %d: loss %.4f, at first %.4f\n", std::string(S::sharding::name).c_str(),
                ctx.degree<dp>() * ctx.degree<fsdp>(), ctx.degree<tp>().here(), r.loss, r.first_loss);
  });
  return last;
}

int main() {
  const double one = train<strategy<mesh<dp, tp>>>({});
  const degrees four{.dp = 2, .tp = 2};
  for (const double l : {train<strategy<mesh<dp, tp>, replicated>>(four), train<strategy<mesh<dp, tp>, zero1>>(four),
                         train<strategy<mesh<dp, tp>, zero2>>(four), train<strategy<mesh<dp, tp>, zero3>>(four),
                         train<strategy<mesh<dp, fsdp, tp>, hybrid>>(degrees{.dp = 2}.with<fsdp>(2))})
    if (std::abs(l - one) > 1e-3 * one) return 1;
  return 0;
}
