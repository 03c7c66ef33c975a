// expect: weft: vjp of a formula gives back as many gradients as forward takes operands: for several, a std::array with one for each
#include <array>

#include <weft/weft.hpp>
using namespace weft;

struct product {
  static constexpr std::string_view name = "product";
  double forward(double x, double y) const { return x * y; }
#ifdef WRONG
  double vjp(double dy, double, double y) const { return dy * y; }
#else
  std::array<double, 2> vjp(double dy, double x, double y) const { return {dy * y, dy * x}; }
#endif
};
using row = tensor<double, dims<hidden>>;

row program(const row& x, const row& y) { return elementwise(product{}, x, y); }
