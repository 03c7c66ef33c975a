// expect: holds fewer digits than
// expect 1: weft: vjp of a formula of a row takes dy or y as a type that holds fewer digits than forward's numbers: write it as a template <class T>, which takes a T
// expect 2: weft: forward of a formula of a row gives back a type that holds fewer digits than the tensor's numbers: write it as a template <class T>, which gives back a T
#include <weft/weft.hpp>
using namespace weft;

struct first {
  static constexpr std::string_view name = "first";
#ifdef WRONG
#if WRONG == 1
  double forward(std::span<const double> x) const { return x[0]; }
  void vjp(float dy, std::span<const double>, double, std::span<double> dx) const { dx[0] = dy; }
#elif WRONG == 2
  float forward(std::span<const double> x) const { return static_cast<float>(x[0]); }
  void vjp(double dy, std::span<const double>, double, std::span<double> dx) const { dx[0] = dy; }
#endif
#else
  template <class T>
  T forward(std::span<const T> x) const {
    return x[0];
  }
  template <class T>
  void vjp(T dy, std::span<const T>, T, std::span<T> dx) const {
    dx[0] = dy;
  }
#endif
};

auto program(const tensor<double, dims<batch, hidden>>& x) { return rowwise<hidden>(first{}, x); }
