// expect: weft: a formula that is not linear is given a pending sum, and a function of a sum is not the sum of the functions: all_reduce<axis>(x) it first
// Linear in its first operand only.
#include <weft/weft.hpp>
using namespace weft;

struct ratio {
  static constexpr std::string_view name = "ratio";
  static constexpr linearity linear = linearity::first;
  float forward(float a, float b) const { return a / b; }
  std::array<float, 2> vjp(float dy, float, float b, float y) const { return {dy / b, -dy * y / b}; }
};
using sums = tensor<float, dims<batch>, partial<tp>>;

auto program(const sums& a, const sums& b) {
#ifdef WRONG
  return elementwise(ratio{}, a, b);
#else
  return elementwise(ratio{}, a, all_reduce<tp>(b));
#endif
}
