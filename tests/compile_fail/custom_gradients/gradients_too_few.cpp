// expect: weft: vjp of custom_gradient(f, x, ...) gives back the gradient of x, or a std::tuple of one for each floating input, in their order
#include <weft/weft.hpp>
using namespace weft;

struct product {
  static constexpr std::string_view name = "product";
  template <class X>
  auto forward(const X& x, const X& y) const {
    return std::pair(x * y, std::tuple(x, y));
  }
  template <class G, class X>
  auto vjp(const G& dz, const X& x, const X& y) const {
#ifdef WRONG
#if WRONG == 1
    return dz * y;
#elif WRONG == 2
    return std::pair(dz * y, dz * x);
#elif WRONG == 3
    return 0;
#elif WRONG == 4
    const auto dx = dz * y, dy = dz * x;
    return std::tie(dx, dy);
#elif WRONG == 5
    (void)dz, (void)x, (void)y;
#endif
#else
    return std::tuple(dz * y, dz * x);
#endif
  }
};
using row = tensor<double, dims<hidden>>;

auto program(const row& x, const row& y) { return custom_gradient(product{}, x, y); }
