// expect: weft: forward of a formula takes or gives back a type that holds fewer digits than the tensor's numbers: write it as a template <class T>, or take double and give back double
// Each would compute with what is left of the numbers.
#include <weft/weft.hpp>
using namespace weft;

struct twice {
  static constexpr std::string_view name = "twice";
  static constexpr bool no_gradient = true;
#ifdef WRONG
#if WRONG == 1
  double forward(int x) const { return 2 * x; }
#elif WRONG == 2
  float forward(float x) const { return 2 * x; }
#elif WRONG == 3
  float forward(double x) const { return static_cast<float>(2 * x); }
#elif WRONG == 4
  static double forward(const float& x) noexcept { return 2 * x; }
#elif WRONG == 5
  double forward(bool x) const { return x ? 2 : 0; }
#endif
#else
  double forward(double x) const { return 2 * x; }
#endif
};

auto program(const tensor<double, dims<batch>>& x) { return elementwise(twice{}, x); }
#if !defined(WRONG)
auto narrow(const tensor<bf16, dims<batch>>& x) { return elementwise(twice{}, x); }
#endif

struct as_number {
  static constexpr std::string_view name = "as_number";
#if defined(WRONG) && WRONG > 1
  float forward(float id) const { return id; }  // from 2^24 on, two ids become one
#else
  double forward(double id) const { return id; }
#endif
};
auto of_ids(const tensor<std::int32_t, dims<batch>>& ids) { return elementwise(as_number{}, ids); }

struct kept {
  static constexpr std::string_view name = "kept";
  float forward(float x, bool keep) const { return keep ? x : 0; }
  std::array<float, 2> vjp(float dy, float, bool keep) const { return {keep ? dy : 0, 0}; }
};
auto masked(const tensor<float, dims<batch>>& x) { return elementwise(kept{}, x, x > 0); }
