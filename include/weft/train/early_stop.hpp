// A run that ends when it no longer gets better on held-out text.
#pragma once

#include <limits>

#include <weft/train/training.hpp>

namespace weft {

/// `early_stop stop({.validations = 3}); trainer.run(data, {.validate_every = 100, .callbacks = {&stop}});` ends the
/// run after so many validations in a row whose loss isn't below the best before by `least`.
class early_stop final : public training_callback {
 public:
  struct rule {
    int validations = 3;
    double least = 0;  // nats; at least 0
  };
  explicit early_stop(const rule& r) : rule_(r) {
    require(r.validations >= 1, "early_stop waits for ", r.validations, " validations; it is 1 or more");
    require(r.least >= 0 && r.least - r.least == 0, "early_stop asks for a loss that falls by ", r.least,
            "; it is a finite number, 0 or more");
  }

  /// The lowest held-out loss so far, and the step that had it; 0: none yet.
  double best() const { return best_; }
  std::int64_t best_step() const { return best_step_; }

  void after_validation(std::int64_t step, double loss) override {
    if (loss < best_ - rule_.least)
      best_ = loss, best_step_ = step, waited_ = 0;
    else
      ++waited_;
  }
  std::string after_step(const step_report&) override {
    if (waited_ < rule_.validations) return {};
    return "the held-out loss hasn't fallen since step " + std::to_string(best_step_);
  }
  bool may_come_late(std::int64_t) override { return waited_ < rule_.validations; }  // a validation waits anyway

 private:
  rule rule_;
  double best_ = std::numeric_limits<double>::infinity();
  std::int64_t best_step_ = 0;
  int waited_ = 0;
};

}  // namespace weft
