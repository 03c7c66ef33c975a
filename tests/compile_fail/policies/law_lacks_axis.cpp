// expect: weft: a law's tensor is placed along an axis that the law's mesh lacks
#include <weft/testing/laws.hpp>

using namespace weft;

struct rows : axis_tag {
  static constexpr std::string_view name = "rows";
};
using x1 = tensor<double, dims<batch>, shard<batch, rows>>;

int main() {
  const auto f = [](const auto& x) { return x * x; };
#ifdef WRONG
  testing::check_gradients<x1>("square", f);
#else
  testing::check_gradients<strategy<mesh<rows>>, x1>("square", f);
#endif
}
