// expect: weft: the tensors that a formula is given have different floating types; cast<T>(x) the one to the other's
#include <weft/weft.hpp>
using namespace weft;

struct blend {
  static constexpr std::string_view name = "blend";
  float forward(float a, float b) const { return a + b / 2; }
  std::array<float, 2> vjp(float dy) const { return {dy, dy / 2}; }
};

auto program(const tensor<float, dims<batch>>& a, const tensor<bf16, dims<batch>>& b) {
#ifdef WRONG
  return elementwise(blend{}, a, b);
#else
  return elementwise(blend{}, a, cast<float>(b));
#endif
}
