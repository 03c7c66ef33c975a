// expect: weft: custom_gradient(f, x, ...) calls f.forward(x, ...), and forward doesn't take these tensors: write it as template <class X> auto forward(const X& x, ...) const
#include <weft/weft.hpp>
using namespace weft;

struct doubled {
  static constexpr std::string_view name = "doubled";
  template <class X>
  auto forward(const X& x) const {
    return x * 2.0;
  }
  template <class G>
  auto vjp(const G& dy) const {
    return dy * 2.0;
  }
};
using row = tensor<double, dims<hidden>>;

auto program(const row& x, [[maybe_unused]] const row& y) {
#ifdef WRONG
  return custom_gradient(doubled{}, x, y);
#else
  return custom_gradient(doubled{}, x);
#endif
}
