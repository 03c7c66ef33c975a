// Dropout as a model's layers have it: in training only, another mask in every recorded pass. Invariant: what is
// dropped is a function of (seed, the place's name, the pass's number, global index), so it doesn't depend on the mesh,
// nor on when a pass's turn comes, and it is the same when the pass is computed again for its backward.
#pragma once

#include <weft/op/dropout.hpp>

namespace weft {

/// As dropout(x, rate, stream) in the recorded pass that runs, ctx.pass; x where nothing is recorded, as in evaluation
/// and generation. place: a name of its own within the model. Shape, placement and cost as dropout's. Decoders,
/// pipelines and trainers number their passes, by step and micro-batch; a loop of one's own around another model says
/// it: `const scoped_value<std::int64_t> pass(ctx.pass, n);` around a forward. Throws where it isn't said, and unless
/// 0 <= rate < 1.
template <any_tensor X>
X training_dropout(const X& x, double rate, std::string_view place) {
  const context& ctx = *untyped(x).ctx;
  require(rate >= 0 && rate < 1, "a dropout rate is from 0 to below 1, not ", rate);
  if (rate == 0 || !ctx.tape) return x;
  require(
      !ctx.in_piece, "dropout of \"", place,
      "\" within a piece of a loss in chunks would draw the same mask in each: have it before the cut, in the pass's "
      "head_input, or take the loss at once (whole_loss)");
  require(
      ctx.pass >= 0, "dropout of \"", place,
      "\" draws by the number of the recorded pass, and nobody said it: train by a trainer or a pipeline, derive the "
      "model from decoder, or write const scoped_value<std::int64_t> pass(ctx.pass, n); around the forward, with "
      "another n for each");
  return dropout(x, rate, dropout_stream(place, static_cast<std::uint64_t>(ctx.pass)));
}

}  // namespace weft
