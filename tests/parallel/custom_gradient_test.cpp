// A function with a backward of its own, of activations and of a weight that its backward reads again: trained under
// every sharding policy as on one rank, and as the operators in it train.
#include "by_hand.hpp"

namespace {
using namespace weft_test;

struct gained {  // x * tanh(x) * gain
  static constexpr std::string_view name = "gained";
  template <class X, class W>
  auto forward(const X& x, const W& gain) const {
    const auto t = tanh(x);
    return std::pair(x * t * gain, std::tuple(x, t, gain));
  }
  template <class D, class X, class W>
  auto vjp(const D& dy, const X& x, const X& t, const W& gain) const {
    const auto dgain = sum<batch, seq>(dy * x * t);
    return std::tuple(dy * gain * (t + x * (1.0 - t * t)), dgain);
  }
};

template <class S, bool Custom>
class gained_model : public model_base<S> {
 public:
  explicit gained_model(context& ctx) : model_base<S>(ctx) {
    parameter_registry& all = this->registry();
    first_ = all.begin_unit("first");
    all.add(ctx, table_, "table", {2, {256, 32}}, {0.3});
    all.add(ctx, gain_, "gain", {1, {32}}, {0, 0.5});
    second_ = all.begin_unit("second");
    all.add(ctx, head_, "head", {2, {256, 32}}, {0.2});
  }
  auto operator()(const token_ids<S>& tokens) {
    const auto first = [&](const auto& t) {
      const auto x = all_reduce<tp>(embedding(t, table_));
      if constexpr (Custom)
        return custom_gradient(gained{}, x, gain_);
      else
        return x * tanh(x) * gain_;
    };
    const auto second = [&](const auto& x) { return contract<hidden>(x, head_); };
    return this->run_unit(second_, second, this->run_unit(first_, first, tokens));
  }

 private:
  int first_, second_;
  weight<S, dims<vocab, hidden>, shard<vocab, tp>> table_, head_;
  weight<S, dims<hidden>> gain_;
};

template <class S, bool Custom = true>
numbers trained(const degrees& ranks) {
  return train_by_hand<gained_model<S, Custom>>(ranks, momentum_sgd{.lr = 0.5});
}

}  // namespace

TEST_CASE("a function with a backward of its own trains a weight as its operators do, whoever has the weight") {
  const numbers one = trained<wide<replicated>, false>({});
  CHECK(worst(one, trained<wide<replicated>>({})) < 1e-12);
  const degrees four{.dp = 2, .tp = 2};
  CHECK(worst(one, trained<wide<replicated>>(four)) < 1e-12);
  CHECK(worst(one, trained<wide<zero2>>(four)) < 1e-12);
  CHECK(worst(one, trained<wide<zero3>>(four)) < 1e-12);
  CHECK(worst(one, trained<wide<hybrid, fsdp>>(degrees{.dp = 2}.with<fsdp>(2))) < 1e-12);
}

TEST_CASE("its weight's gradient is kept in the main gradient's type") {
  const numbers one = trained<strategy<mesh<dp, tp>, replicated, bf16_mixed>>({});
  CHECK(worst(one, trained<strategy<mesh<dp, tp>, zero3, bf16_mixed>>({.dp = 2, .tp = 2})) < 0.01);
}
