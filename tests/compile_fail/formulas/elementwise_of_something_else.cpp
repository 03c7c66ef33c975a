// expect: weft: elementwise(formula, x...) takes
// expect 1: weft: elementwise(formula, x...) takes tensors: a number is a member of the formula, or full<tensor<float, dims<>>>(ctx, {}, number), which is broadcast
// expect 2: weft: elementwise(formula, x...) takes the formula first, and then tensors
#include <weft/weft.hpp>
using namespace weft;

struct smaller {
  static constexpr std::string_view name = "smaller";
  template <class T>
  bool forward(T a, T b) const {
    return a < b;
  }
};

auto program(context& ctx, const tensor<float, dims<batch, hidden>>& x) {
#ifdef WRONG
#if WRONG == 1
  elementwise(smaller{}, x, 2.0);
#elif WRONG == 2
  elementwise(x, smaller{});
#endif
#else
  return elementwise(smaller{}, x, full<tensor<float, dims<>>>(ctx, {}, 2));
#endif
}
