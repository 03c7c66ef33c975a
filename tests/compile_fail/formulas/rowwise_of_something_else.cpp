// expect: weft: rowwise
// expect 1: weft: rowwise<dim>(formula, x) names a dimension of the tensor, as hidden, and no other tag
// expect 2: weft: rowwise<dim>(formula, x) takes the formula and then one tensor: what else there is enters afterwards, rowwise<hidden>(formula, x) * w, or as the formula's own numbers
// expect 3: weft: rowwise names the dimension along which rows lie: rowwise<hidden>(formula, x)
// expect 4: weft: rowwise<dim>(formula, x) takes the formula and then one tensor
#include <weft/weft.hpp>
using namespace weft;

struct first {
  static constexpr std::string_view name = "first";
  static constexpr bool no_gradient = true;
  template <class T>
  T forward(std::span<const T> x) const {
    return x[0];
  }
};

auto program(const tensor<float, dims<batch, hidden>>& x) {
#ifdef WRONG
#if WRONG == 1
  rowwise<tp>(first{}, x);
#elif WRONG == 2
  rowwise<hidden>(first{}, x, x);
#elif WRONG == 3
  rowwise(first{}, x);
#elif WRONG == 4
  rowwise<hidden>(x, first{});
#endif
#else
  return rowwise<hidden>(first{}, x) * x;
#endif
}
