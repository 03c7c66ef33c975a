// expect: weft: a formula has vjp(dy, x..., y) const, or vjp(dy, x...), or vjp(dy), or, of masks and ids alone as whole numbers, vjp(dy, mask...)
// Its x would be the mask's 0 or 1.
#include <weft/weft.hpp>
using namespace weft;

struct masked_square {
  static constexpr std::string_view name = "masked_square";
  double forward(double x, std::uint8_t m) const { return m ? x * x : 0; }
#ifdef WRONG
  std::array<double, 2> vjp(double dy, double x) const { return {2 * dy * x, 0}; }
#else
  std::array<double, 2> vjp(double dy, double x, std::uint8_t m) const { return {m ? 2 * dy * x : 0, 0}; }
#endif
};

auto program(const tensor<double, dims<batch>>& x, const tensor<std::uint8_t, dims<batch>>& mask) {
  return elementwise(masked_square{}, x, mask);
}
