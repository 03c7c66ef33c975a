// expect: weft: custom_gradient(f, x, ...) takes a struct with forward, vjp and a name, which errors and traces say: static constexpr std::string_view name =
#include <weft/weft.hpp>
using namespace weft;

struct unnamed {
  template <class X>
  auto forward(const X& x) const {
    return x * 2.0;
  }
  template <class G>
  auto vjp(const G& dy) const {
    return dy * 2.0;
  }
};
struct doubled : unnamed {
  static constexpr std::string_view name = "doubled";
};
using row = tensor<double, dims<hidden>>;

#ifdef WRONG
#if WRONG == 1
auto program(const row& x) { return custom_gradient(unnamed{}, x); }
#elif WRONG == 2
auto program(const row& x) {
  return custom_gradient([](const auto& y) { return y * 2.0; }, x);
}
#endif
#else
auto program(const row& x) { return custom_gradient(doubled{}, x); }
#endif
