// expect: weft: an optimizer moves a weight by fractions: its element type is float, double, bf16 or fp16
#include <weft/weft.hpp>
using namespace weft;

template <class T>
void update(tensor<T, dims<hidden>>& w, adamw_state& state) {
  adamw_update(w, w, state, {});
}
#ifdef WRONG
template void update(tensor<std::int32_t, dims<hidden>>&, adamw_state&);
#else
template void update(tensor<bf16, dims<hidden>>&, adamw_state&);
#endif
