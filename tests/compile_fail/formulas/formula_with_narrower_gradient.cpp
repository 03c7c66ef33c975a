// expect: weft: vjp of a formula takes or gives back a type that holds fewer digits than the numbers that forward computes with: write it as a template <class T>, or take double and give back double
// Gradients would be cut to whole numbers.
#include <array>

#include <weft/weft.hpp>
using namespace weft;

struct product {
  static constexpr std::string_view name = "product";
  template <class T>
  T forward(T x, T y) const {
    return x * y;
  }
#ifdef WRONG
#if WRONG == 1
  template <class T>
  std::array<int, 2> vjp(T dy, T x, T y) const {
    return {static_cast<int>(dy * y), static_cast<int>(dy * x)};
  }
#elif WRONG == 2
  std::array<float, 2> vjp(int dy, float x, float y) const { return {float(dy) * y, float(dy) * x}; }
#elif WRONG == 3
  std::array<float, 2> vjp(float dy, int x, float y) const { return {dy * y, dy * float(x)}; }
#elif WRONG == 4
  std::array<bool, 2> vjp(float dy) const { return {dy > 0, dy > 0}; }
#endif
#else
  std::array<double, 2> vjp(double dy, double x, double y) const { return {dy * y, dy * x}; }
#endif
};

template <class T>
auto program(const tensor<T, dims<hidden>>& x) {
  return elementwise(product{}, x, x);
}
auto of_float(const tensor<float, dims<hidden>>& x) { return program(x); }
#ifndef WRONG
auto of_double(const tensor<double, dims<hidden>>& x) { return program(x); }
auto of_fp16(const tensor<fp16, dims<hidden>>& x) { return program(x); }
#endif

struct cubed {
  static constexpr std::string_view name = "cubed";
  double forward(double x) const { return x * x * x; }
#if defined(WRONG) && WRONG == 1
  int vjp(double dy, double x) const { return static_cast<int>(3 * dy * x * x); }
#else
  double vjp(double dy, double x) const { return 3 * dy * x * x; }
#endif
};
auto of_cubed(const tensor<float, dims<hidden>>& x) { return elementwise(cubed{}, x); }
