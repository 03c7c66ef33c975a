// expect: weft: custom_gradient(f, x, ...) calls f.vjp(dy, ..., kept, ...) with the gradient of each floating output and with what forward kept, and vjp doesn't take these: write it as template <class G, class X> auto vjp(const G& dy, const X& x, ...) const
#include <weft/weft.hpp>
using namespace weft;

struct square_of {
  static constexpr std::string_view name = "square_of";
#ifdef WRONG
#if WRONG == 1
  auto forward(const auto& x) const { return x * x; }  // keeps nothing
  auto vjp(const auto& dy, const auto& x) const { return dy * x * 2.0; }
#elif WRONG == 2
  auto forward(const auto& x) const { return std::pair(x * x, x); }
  template <class X>
  auto vjp(const X& dy, const X& x) const {  // of one type, which they aren't
    return dy * x * 2.0;
  }
#elif WRONG == 3
  auto forward(const auto& x) const { return std::pair(x * x, x); }
#endif
#else
  auto forward(const auto& x) const { return std::pair(x * x, x); }
  auto vjp(const auto& dy, const auto& x) const { return dy * x * 2.0; }
#endif
};
using row = tensor<double, dims<hidden>, replicate<tp>>;

auto program(const row& x) { return custom_gradient(square_of{}, x); }
