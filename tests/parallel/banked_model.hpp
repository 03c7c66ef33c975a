// A model for tests in which some weights are stored over other axes than the rest. Invariant: it computes the same on
// every mesh.
#pragma once

#include "by_hand.hpp"

namespace weft_test {

// The example's network, and between its ends a layer whose weights differ from rank to rank along Axis; along
// Others they are the same.
template <class S, class Axis, class... Others>
class banked_model {
 public:
  using strategy = S;
  using ids = token_ids<S>;
  using compute = typename S::precision::compute;

  explicit banked_model(context& ctx) : ctx_(ctx) {
    unit_ = registry_.begin_unit("all");
    registry_.add(ctx, table_, "table", {2, {256, 32}}, {0.3});
    registry_.add(ctx, bank_, "bank", {2, {6, 32}}, {0.3});
    registry_.add(ctx, gain_, "gain", {1, {32}}, {0, 0.5});
    registry_.add(ctx, head_, "head", {2, {256, 32}}, {0.2});
  }
  auto operator()(const ids& tokens) {
    const auto all = [&](const auto& t) {
      const auto x = all_reduce<tp>(embedding(t, table_));
      const auto every = all_gather<Axis>(bank_);
      const auto y = x + contract<expert>(tanh(contract<hidden>(x, every)), every) * gain_;
      return contract<hidden>(y, head_);
    };
    return in_unit(ctx_, *hooks_, unit_, all, tokens);
  }
  parameter_registry& registry() { return registry_; }
  void use(unit_hooks& hooks) { hooks_ = &hooks; }
  void release() { hooks_ = nullptr; }

 private:
  context& ctx_;
  parameter_registry registry_;
  unit_hooks* hooks_ = nullptr;
  int unit_;
  weight<S, dims<vocab, hidden>, shard<vocab, tp>> table_, head_;
  tensor<compute, dims<expert, hidden>, shard<expert, Axis>, replicate<Others>...> bank_;
  weight<S, dims<hidden>> gain_;
};

}  // namespace weft_test
