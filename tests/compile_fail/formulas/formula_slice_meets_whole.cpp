// expect: weft: a slice meets a whole value in a dimension that both have: split<dim, axis> the whole one or all_gather<axis> the slice
#include <weft/weft.hpp>
using namespace weft;

struct product {
  static constexpr std::string_view name = "product";
  float forward(float a, float b) const { return a * b; }
  std::array<float, 2> vjp(float dy, float a, float b) const { return {dy * b, dy * a}; }
};

auto program(const tensor<float, dims<batch, ffn>, shard<ffn, tp>>& a, const tensor<float, dims<ffn>>& b) {
#ifdef WRONG
  return elementwise(product{}, a, b);
#else
  return elementwise(product{}, a, split<ffn, tp>(b));
#endif
}
