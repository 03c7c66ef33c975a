// expect: weft:
// expect 1: weft: a formula has vjp(dy, x..., y) const, or vjp(dy, x...), or vjp(dy)
// expect 2: weft: no_gradient, keeps_input and keeps_output of a formula are bool, and known when compiling: static constexpr bool no_gradient = true
// expect 3: weft: no_gradient, keeps_input and keeps_output of a formula are bool, and known when compiling: static constexpr bool no_gradient = true
// expect 4: weft: a formula that says no_gradient = true has a vjp, which would never run: leave out the one or the other
// What a formula says counts by its value: `false` doesn't say that there is no gradient.
#include <weft/weft.hpp>
using namespace weft;

struct rounded {
  static constexpr std::string_view name = "rounded";
#ifdef WRONG
#if WRONG == 1
  static constexpr bool no_gradient = false;
#elif WRONG == 2
  static constexpr int no_gradient = 1;
#elif WRONG == 3
  const bool no_gradient = true;
#elif WRONG == 4
  static constexpr bool no_gradient = true;
  template <class T>
  T vjp(T dy, T) const {
    return dy;
  }
#endif
#else
  static constexpr bool no_gradient = true;
#endif
  float forward(float x) const { return std::round(x); }
};

auto program(const tensor<float, dims<batch, ffn>>& h) { return elementwise(rounded{}, h); }
