// expect: weft: a formula of a row has vjp(dy, x, y, dx) const, which writes the gradient of the row x into dx; dy and y are rows, or numbers where forward makes a number of a row; one without a gradient says static constexpr bool no_gradient = true
#include <weft/weft.hpp>
using namespace weft;

struct first {
  static constexpr std::string_view name = "first";
  template <class T>
  T forward(std::span<const T> x) const {
    return x[0];
  }
#ifdef WRONG
#if WRONG == 1
  template <class T>
  void vjp(std::span<const T> dy, std::span<const T> x, std::span<const T> y, std::span<T> dx) const {  // of rows
    dx[0] = dy[0] * x[0] * y[0];
  }
#elif WRONG == 2
#endif
#else
  template <class T>
  void vjp(T dy, std::span<const T>, T, std::span<T> dx) const {
    dx[0] = dy;
  }
#endif
};
using rows = tensor<float, dims<batch, hidden>>;

auto program(const rows& x) { return rowwise<hidden>(first{}, x); }
