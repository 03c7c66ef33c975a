// expect: weft: checkpoint<policy>(f, x) names a checkpointing policy, checkpoint_full, checkpoint_selective or one of your own
#include <weft/weft.hpp>
using namespace weft;

void program(const tensor<float, dims<batch, hidden>>& x) {
#ifdef WRONG
  checkpoint<zero3>([](const auto& h) { return h; }, x);
#else
  checkpoint<checkpoint_full>([](const auto& h) { return h; }, x);
#endif
}
