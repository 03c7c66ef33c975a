// expect: weft: a precision's initial_loss_scale is a number from 2^-24 to 2^24; leave it out where nothing is scaled
// A scale of __builtin_nan("") would be taken for none.
#include <weft/weft.hpp>
using namespace weft;

struct own_precision : fp16_mixed {
#ifdef WRONG
  static constexpr double initial_loss_scale = __builtin_nan("");
#else
  static constexpr double initial_loss_scale = 1;
#endif
};

void program(context& ctx, llama<strategy<mesh<dp>, own_precision>>& model) { trainer t(ctx, model); }
