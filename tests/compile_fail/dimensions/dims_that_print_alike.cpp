// expect: weft: two dimensions of one name can't be told apart, since their types have one name too
// Types of two lambdas' own: what is told apart by their names would take one for the other.
#include <weft/weft.hpp>
using namespace weft;

struct named : dim_tag {
  static constexpr std::string_view name = "n";
};
#ifdef WRONG
inline auto one = [] {
  struct own : named {};
  return own{};
};
inline auto other = [] {
  struct own : named {};
  return own{};
};
#else
inline auto one = [] {
  struct own : named {};
  return own{};
};
inline auto other = [] {
  struct another : named {};
  return another{};
};
#endif
using A = decltype(one());
using B = decltype(other());
using square_matrix = tensor<float, dims<A, B>>;

void program(context& ctx) { ones<square_matrix>(ctx, {2, 2}); }
