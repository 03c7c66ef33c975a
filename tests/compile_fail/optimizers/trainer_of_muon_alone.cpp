// expect: weft: this optimizer takes whole matrices, and a model has tables and vectors too: by_shape{muon{}, adamw{}}
#include <weft/weft.hpp>
using namespace weft;

using S = strategy<mesh<dp>>;

void program(context& ctx, llama<S>& model) {
#ifdef WRONG
  trainer t(ctx, model, muon{});
#else
  trainer t(ctx, model, by_shape{muon{}, adamw{}});
#endif
}
