// expect: weft: forward of custom_gradient(f, x, ...) gives back its output, or std::tuple(y, z) of several; and with it what vjp reads, as std::pair(y, std::tuple(x, ...)), all of them tensors
#include <weft/weft.hpp>
using namespace weft;

struct scaled {
  static constexpr std::string_view name = "scaled";
  double factor = 2;
  template <class X>
  auto forward(const X& x) const {
#ifdef WRONG
#if WRONG == 1
    return std::pair(x * factor, factor);
#elif WRONG == 2
    return std::tuple(x * factor, factor);
#elif WRONG == 3
    (void)x;
#elif WRONG == 4
    const auto y = x * factor;
    return std::tie(y);
#endif
#else
    return x * factor;
#endif
  }
  template <class G>
  auto vjp(const G& dy) const {
    return dy * factor;
  }
};
using row = tensor<double, dims<hidden>>;

auto program(const row& x) { return custom_gradient(scaled{}, x); }
