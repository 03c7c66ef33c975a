// What every model has beside its weights and its forward pass: the registry of its parameters, and who stores them.
// Invariant: a unit runs only while there is a store for its weights.
#pragma once

#include <weft/nn/parameters.hpp>
#include <weft/nn/unit.hpp>
#include <weft/nn/weight.hpp>

namespace weft {

namespace detail {
[[noreturn, gnu::cold]] WEFT_LINKED void fail_without_store() {
  fail(
      "the model has no parameter store: make a trainer or a parameter_store for it, and keep that as long as the "
      "model is used");
}
}  // namespace detail

/// Base of a model under the strategy S, for a trainer or a parameter store. The model's constructor puts its weights
/// into units of the registry, and its operator() takes `ids` and gives logits, unit by unit. A model isn't copied: the
/// store knows its weights' addresses.
template <class S>
class model_base {
 public:
  using strategy = S;
  using compute = typename S::precision::compute;
  /// What it reads: token ids, [batch/dp, seq]. A model that reads another tensor says so by an `ids` of its own.
  using ids = token_ids<S>;

  model_base(const model_base&) = delete;
  model_base& operator=(const model_base&) = delete;

  context& ctx() const { return *ctx_; }
  parameter_registry& registry() { return registry_; }
  const parameter_registry& registry() const { return registry_; }
  /// Told by who stores the weights; a trainer does it by itself.
  void use(unit_hooks& hooks) { hooks_ = &hooks; }
  /// Says that the parameter store is gone, and with it the weights.
  void release() { hooks_ = nullptr; }

 protected:
  explicit model_base(context& ctx) : ctx_(&ctx) {}
  ~model_base() = default;

  /// y = f(x) with the weights of `unit`, a number of begin_unit's, at their place, in the forward and, where it is
  /// recorded, in the backward. f reads no others, but for a unit that runs within. Shape and placement: f's. Throws
  /// weft::failure where no store has the weights.
  template <class F, any_tensor X>
  auto run_unit(int unit, F&& f, const X& x) {
    return in_unit(*ctx_, stored(), unit, f, x);
  }
  /// Who stores the weights. Throws weft::failure where nobody does.
  unit_hooks& stored() const {
    if (!hooks_) detail::fail_without_store();
    return *hooks_;
  }

 private:
  context* ctx_;
  parameter_registry registry_;
  unit_hooks* hooks_ = nullptr;
};

}  // namespace weft
