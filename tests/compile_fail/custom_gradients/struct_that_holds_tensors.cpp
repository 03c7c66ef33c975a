// expect: weft: the struct of custom_gradient(f, x, ...) is copied, and its backward runs later: let its members be numbers, 200 bytes at most, no const ones and no references, and give it the tensors that it computes with as x, ..., so that they get gradients
#include <weft/weft.hpp>
using namespace weft;

using row = tensor<double, dims<hidden>>;
#ifdef WRONG
#if WRONG == 1
struct product {
  static constexpr std::string_view name = "product";
  row w;
  row forward(const row& x) const { return x * w; }
  row vjp(const row& dz) const { return dz * w; }
};
auto program(const row& x, const row& w) { return custom_gradient(product{w}, x); }
#elif WRONG == 2
struct product {
  static constexpr std::string_view name = "product";
  const row* w;
  row forward(const row& x) const { return x * *w; }
  row vjp(const row& dz) const { return dz * *w; }
};
auto program(const row& x, const row& w) { return custom_gradient(product{&w}, x); }
#elif WRONG == 3
struct product {
  static constexpr std::string_view name = "product";
  const row& w;
  row forward(const row& x) const { return x * w; }
  row vjp(const row& dz) const { return dz * w; }
};
auto program(const row& x, const row& w) { return custom_gradient(product{w}, x); }
#endif
#else
struct product {
  static constexpr std::string_view name = "product";
  auto forward(const row& x, const row& w) const { return std::pair(x * w, std::tuple(x, w)); }
  auto vjp(const row& dz, const row& x, const row& w) const { return std::tuple(dz * w, dz * x); }
};
auto program(const row& x, const row& w) { return custom_gradient(product{}, x, w); }
#endif
