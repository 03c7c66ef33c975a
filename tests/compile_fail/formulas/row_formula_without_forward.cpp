// expect: weft: a formula of a row has one forward, as a template <class T>: T forward(std::span<const T> x) const, which makes a number of a row, or void forward(std::span<const T> x, std::span<T> y) const, which makes a row; bf16 and fp16 come as float
// Tensors of float come as spans of float: a forward of doubles alone isn't called with them.
#include <weft/weft.hpp>
using namespace weft;

struct largest {
  static constexpr std::string_view name = "largest";
#ifdef WRONG
  double forward(std::span<const double> x) const { return x[0]; }
#else
  template <class T>
  T forward(std::span<const T> x) const {
    return x[0];
  }
#endif
  static constexpr bool no_gradient = true;
};
using rows = tensor<float, dims<batch, hidden>>;

auto program(const rows& x) { return rowwise<hidden>(largest{}, x); }
