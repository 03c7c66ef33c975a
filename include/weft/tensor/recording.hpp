// Whether operators are recorded, and on which tape: scopes. Invariant: a scope that ends leaves what was before it, in
// whatever order several end.
#pragma once

#include <utility>

#include <weft/tensor/context.hpp>

namespace weft {

/// Records on `tape` for the life of the object (or, given null, records nothing). Several may end in any order.
class [[nodiscard]] recording {
 public:
  recording(context& ctx, tape* to)
      : ctx_(&ctx), outer_(std::exchange(ctx.tape, to)), around_(std::exchange(ctx.recording, this)) {}
  ~recording() {
    context* const ctx = ctx_.if_alive();
    if (!ctx) return;  // its launch has ended before it
    if (ctx->recording == this) {
      ctx->tape = outer_;
      ctx->recording = around_;
      return;
    }
    recording* within = ctx->recording;
    while (within->around_ != this) within = within->around_;
    within->outer_ = outer_;
    within->around_ = around_;
  }
  recording(const recording&) = delete;
  recording& operator=(const recording&) = delete;

 private:
  context_ref ctx_;
  tape* outer_;
  recording* around_;
};

/// Nothing is recorded for the life of the object: `no_grad off(ctx);` for evaluation, and for writing weights.
class [[nodiscard]] no_grad {
 public:
  [[nodiscard]] explicit no_grad(context& ctx) : off_(ctx, nullptr) {}

 private:
  recording off_;
};

}  // namespace weft
