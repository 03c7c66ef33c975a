// expect: weft: a formula has vjp(dy, x..., y) const, or vjp(dy, x...), or vjp(dy), or, of masks and ids alone as whole numbers, vjp(dy, mask...), which gives back the gradient of x, for several x a std::array of them; one without a gradient says static constexpr bool no_gradient = true
// It would train nothing below it, without a word.
#include <weft/weft.hpp>
using namespace weft;

struct rounded {
  static constexpr std::string_view name = "rounded";
#ifdef WRONG
#else
  static constexpr bool no_gradient = true;
#endif
  float forward(float x) const { return std::round(x); }
};

auto program(const tensor<float, dims<batch, ffn>>& h) { return elementwise(rounded{}, h); }
