// expect: weft: an optimizer changes the weight, and this one is const
#include <weft/weft.hpp>
using namespace weft;
using row = tensor<float, dims<hidden>>;

#ifdef WRONG
void program(const row& w, const row& gradient, adamw_state& state) { adamw_update(w, gradient, state, {}); }
#else
void program(row& w, const row& gradient, adamw_state& state) { adamw_update(w, gradient, state, {}); }
#endif
