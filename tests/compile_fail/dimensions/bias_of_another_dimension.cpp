// expect: adds a bias with dimensions of the product, and this one has another: sum it over that, or write contract<dim...>(a, b) + bias
// A bias that repeats the product along a dimension of its own.
#include <weft/weft.hpp>
using namespace weft;

using x_type = tensor<float, dims<batch, hidden>>;
using w_type = tensor<float, dims<ffn, hidden>>;

auto program(const x_type& x, const w_type& w, const tensor<float, dims<seq, ffn>>& b,
             const tensor<float, dims<hidden>>& of_input) {
#ifdef WRONG
#if WRONG == 1
  return contract<hidden>(x, w, b);
#elif WRONG == 2
  return contract_gelu<hidden>(x, w, of_input);
#endif
#else
  contract_gelu<hidden>(x, w, sum<seq>(b));
  contract<hidden>(x, w, sum<seq>(b));
  (void)of_input;
  return contract<hidden>(x, w) + b;
#endif
}
