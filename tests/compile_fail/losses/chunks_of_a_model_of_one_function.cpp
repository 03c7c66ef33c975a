// expect: weft: the strategy takes the loss in chunks, and this model's head can't be told from the rest of it: derive it from decoder, or leave chunked_loss out of the strategy
// Nothing says where its head begins.
#include <weft/weft.hpp>
using namespace weft;

#ifdef WRONG
using S = strategy<mesh<dp>, chunked_loss<8>>;
#else
using S = strategy<mesh<dp>>;
#endif
struct small_model {
  using strategy = S;
  using ids = token_ids<S>;
  tensor<float, dims<batch, seq, vocab>, shard<batch, dp>> operator()(const ids&) { return {}; }
  parameter_registry& registry();
  void use(unit_hooks&) {}
  void release() {}
};

void program(context& ctx, small_model& model) { trainer training(ctx, model); }
