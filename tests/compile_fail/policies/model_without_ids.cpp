// expect: weft: a trainer's model says 'using strategy = S;' and 'using ids = token_ids<S>;'
#include <weft/weft.hpp>
using namespace weft;

template <class S>
struct small_model {
  using strategy = S;
#ifdef WRONG
  using tokens = token_ids<S>;
#else
  using ids = token_ids<S>;
#endif
  tensor<float, dims<batch, seq, vocab>, shard<batch, dp>> operator()(const token_ids<S>&) { return {}; }
  parameter_registry& registry();
  void use(unit_hooks&) {}
  void release() {}
};

void program(context& ctx, small_model<strategy<mesh<dp>>>& model) { trainer training(ctx, model); }
