// expect: weft: a formula has forward(x...) const, which takes one number of each tensor and gives back one; bf16 and fp16 come as float
#include <weft/weft.hpp>
using namespace weft;

struct squared {
  static constexpr std::string_view name = "squared";
  float forward(float a) const { return a * a; }
  float vjp(float dy, float a) const { return 2 * dy * a; }
};

auto program([[maybe_unused]] const tensor<float, dims<batch>>& a, const tensor<float, dims<batch>>& b) {
#ifdef WRONG
  return elementwise(squared{}, a, b);
#else
  return elementwise(squared{}, b);
#endif
}
