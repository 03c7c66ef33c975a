// expect: weft: this optimizer takes whole matrices, and a model has tables and vectors too: by_shape{muon{}, adamw{}}
#include <weft/weft.hpp>
using namespace weft;

using store_type = parameter_store<cpu_backend, fp32>;

#ifdef WRONG
void program(store_type& store) { store.update(muon{}, optimizer_step{1, 0.1, 1.0}); }
#else
void program(store_type& store) { store.update(by_shape{muon{}, adamw{}}, optimizer_step{1, 0.1, 1.0}); }
#endif
