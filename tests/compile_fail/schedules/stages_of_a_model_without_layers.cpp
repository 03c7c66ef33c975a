// expect: weft: the mesh has the axis pp, and this model can't be cut into stages: derive it from decoder, or leave pp out of the mesh
// A model that is one function has no layers to split.
#include <weft/weft.hpp>
using namespace weft;

template <class S>
struct one_function {
  using strategy = S;
  using ids = token_ids<S>;
  tensor<float, dims<batch, seq, vocab>, shard<batch, dp>> operator()(const ids&) { return {}; }
};

#ifdef WRONG
void program(context& ctx, one_function<strategy<mesh<dp, pp>>>& model) { pipeline stages(ctx, model); }
#else
void program(context& ctx, one_function<strategy<mesh<dp>>>& model) { pipeline stages(ctx, model); }
#endif
