// expect: weft:
// expect 1: weft: a formula of a row has vjp(dy, x, y, dx) const
// expect 2: weft: no_gradient, keeps_input and keeps_output of a formula are bool, and known when compiling: static constexpr bool no_gradient = true
// expect 3: weft: a formula that says no_gradient = true has a vjp, which would never run: leave out the one or the other
#include <weft/weft.hpp>
using namespace weft;

struct first {
  static constexpr std::string_view name = "first";
#ifdef WRONG
#if WRONG == 1
  static constexpr bool no_gradient = false;
#elif WRONG == 2
  static constexpr bool no_gradient = true;
  static constexpr int keeps_input = 0;
#elif WRONG == 3
  static constexpr bool no_gradient = true;
  void vjp(float dy, std::span<const float>, float, std::span<float> dx) const { dx[0] = dy; }
#endif
#else
  static constexpr bool no_gradient = true;
#endif
  float forward(std::span<const float> x) const { return x[0]; }
};

auto program(const tensor<float, dims<batch, hidden>>& x) { return rowwise<hidden>(first{}, x); }
