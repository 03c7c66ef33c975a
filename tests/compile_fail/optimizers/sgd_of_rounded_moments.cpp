// expect: weft: this precision keeps moments in bf16, rounded stochastically, which adamw alone does: take adamw, or a precision without moment, as bf16_mixed
#include <weft/weft.hpp>
using namespace weft;

using store_type = parameter_store<cpu_backend, bf16_moments>;

#ifdef WRONG
void program(store_type& store) { store.update(sgd{}, optimizer_step{1, 0.1, 1.0}); }
#else
void program(store_type& store) { store.update(adamw{}, optimizer_step{1, 0.1, 1.0}); }
#endif
