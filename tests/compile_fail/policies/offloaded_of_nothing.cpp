// expect: weft: offloaded<P> moves what a layer keeps to run again, its input, and this policy runs nothing again
#include <weft/weft.hpp>
using namespace weft;

#ifdef WRONG
using S = strategy<mesh<dp>, offloaded<checkpoint_none>>;
#else
using S = strategy<mesh<dp>, offloaded<checkpoint_selective>>;
#endif
void program(context& ctx) { llama<S> model(ctx, {}); }
