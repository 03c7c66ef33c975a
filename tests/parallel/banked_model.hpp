// A model for tests in which some weights are stored over other axes than the rest. Invariant: it computes the same on
// every mesh.
#pragma once

#include "by_hand.hpp"

namespace weft_test {

// The example's network, and between its ends a layer whose weights differ from rank to rank along Axis; along
// Others they are the same.
template <class S, class Axis, class... Others>
class banked_model : public model_base<S> {
 public:
  explicit banked_model(context& ctx) : model_base<S>(ctx) {
    parameter_registry& all = this->registry();
    unit_ = all.begin_unit("all");
    all.add(ctx, table_, "table", {2, {256, 32}}, {0.3});
    all.add(ctx, bank_, "bank", {2, {6, 32}}, {0.3});
    all.add(ctx, gain_, "gain", {1, {32}}, {0, 0.5});
    all.add(ctx, head_, "head", {2, {256, 32}}, {0.2});
  }
  auto operator()(const token_ids<S>& tokens) {
    const auto all = [&](const auto& t) {
      const auto x = all_reduce<tp>(embedding(t, table_));
      const auto every = all_gather<Axis>(bank_);
      const auto y = x + contract<expert>(tanh(contract<hidden>(x, every)), every) * gain_;
      return contract<hidden>(y, head_);
    };
    return this->run_unit(unit_, all, tokens);
  }

 private:
  using compute = typename S::precision::compute;
  int unit_;
  weight<S, dims<vocab, hidden>, shard<vocab, tp>> table_, head_;
  tensor<compute, dims<expert, hidden>, shard<expert, Axis>, replicate<Others>...> bank_;
  weight<S, dims<hidden>> gain_;
};

}  // namespace weft_test
