// expect: weft: the schedule gives each rank several chunks of layers, and this model can't be cut into them: derive it from decoder, or take a schedule of one chunk, as one_f_one_b
// A model that is one function, on a mesh without stages.
#include <weft/weft.hpp>
using namespace weft;

#ifdef WRONG
using S = strategy<mesh<dp>, interleaved<2>>;
#else
using S = strategy<mesh<dp>, gpipe>;
#endif

struct one_function {
  using strategy = S;
  using ids = token_ids<S>;
  weight<S, dims<vocab, hidden>> table;
  auto operator()(const ids& tokens) { return contract<hidden>(embedding(tokens, table), table); }
};

void program(context& ctx, one_function& model) { pipeline stages(ctx, model); }
