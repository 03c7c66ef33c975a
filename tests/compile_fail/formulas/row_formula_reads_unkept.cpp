// expect: weft: vjp of a formula of a row takes what the formula says that it doesn't need: with keeps_input = false leave out its x, with keeps_output = false its y
// It would read memory that isn't there.
#include <weft/weft.hpp>
using namespace weft;

struct squares {
  static constexpr std::string_view name = "squares";
  template <class T>
  T forward(std::span<const T> x) const {
    T total = 0;
    for (const T v : x) total += v * v;
    return total;
  }
#ifdef WRONG
#if WRONG == 1
  static constexpr bool keeps_input = false;
#elif WRONG == 2
  static constexpr bool keeps_output = false;
#endif
  template <class T>
  void vjp(T dy, std::span<const T> x, T, std::span<T> dx) const {
#else
  static constexpr bool keeps_output = false;
  template <class T>
  void vjp(T dy, std::span<const T> x, std::span<T> dx) const {
#endif
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = 2 * dy * x[i];
  }
};
auto program(const tensor<float, dims<batch, hidden>>& x) { return rowwise<hidden>(squares{}, x); }
