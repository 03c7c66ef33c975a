// Tensors over eight axes, the most that there are: an operand promoted over all of them, and its gradient.
#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;
struct a1 : axis_tag {
  static constexpr std::string_view name = "a1";
};
struct a2 : axis_tag {
  static constexpr std::string_view name = "a2";
};
struct a3 : axis_tag {
  static constexpr std::string_view name = "a3";
};
struct a4 : axis_tag {
  static constexpr std::string_view name = "a4";
};
static_assert(axis_set(tag_list<dp, tp, cp, ep, a1, a2, a3, a4>{}).size() == 8);
}  // namespace

TEST_CASE("an operand is promoted over eight axes") {
  launch<strategy<mesh<dp, tp, a1, a4>>>({.dp = 2, .tp = 2}, [](context& ctx) {
    using wide = tensor<float, dims<batch, seq>, shard<batch, dp, cp, a1, a2>, shard<seq, tp, ep, a3, a4>>;
    const auto x = full<wide>(ctx, {4, 2}, 3);
    auto g = full<tensor<float, dims<>>>(ctx, {}, 5).requires_grad();
    backward(sum(x * g));
    CHECK(on_host(g.grad()) == std::vector<float>{24});
  });
}
