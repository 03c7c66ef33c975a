// Two dimensions as one: extents, values, whose memory it is, and shares that don't fit.
#include <doctest/doctest.h>

#include <weft/autograd/checkpoint.hpp>
#include <weft/op/merge.hpp>
#include <weft/weft.hpp>

namespace {
using namespace weft;

using grid = tensor<double, dims<batch, heads, head_dim>>;
using flat = tensor<double, dims<batch, hidden>>;

static_assert(std::same_as<decltype(merge<hidden, heads, head_dim>(grid{})), flat>);
using known = tensor<float, dims<extent<heads, 3>, extent<head_dim, 4>, seq>, shard<heads, tp>, partial<dp>>;
static_assert(std::same_as<decltype(merge<ffn, heads, head_dim>(known{})),
                           tensor<float, dims<extent<ffn, 12>, seq>, shard<ffn, tp>, partial<dp>>>);
static_assert(std::same_as<decltype(merge<heads, head_dim, seq>(rename<heads, ffn>(known{}))),
                           tensor<float, dims<extent<ffn, 3>, heads>, shard<ffn, tp>, partial<dp>>>);

TEST_CASE("merge: the inner elements of each outer one together") {
  launch<strategy<mesh<tp>>>({.tp = 2}, [](context& ctx) {
    using halves = tensor<double, dims<batch, heads, head_dim>, shard<heads, tp>>;
    const auto x = generate<halves>(ctx, {2, 4, 3}, [](std::int64_t i) { return double(i); });
    const auto y = merge<hidden, heads, head_dim>(x);
    CHECK(y.template global_extent<hidden>() == 12);
    CHECK(y.template local_extent<hidden>() == 6);
    const auto all = on_host(all_gather<tp>(y));
    for (std::size_t i = 0; i < 24; ++i) CHECK(all[i] == double(i));
  });
}

TEST_CASE("merge shares an operator's memory, and copies a leaf's") {
  launch<strategy<mesh<dp>>>({}, [](context& ctx) {
    auto leaf = full<grid>(ctx, {2, 2, 3}, 1.0).requires_grad();
    tape recorded;
    const recording on(ctx, &recorded);
    const auto x = scale(leaf, 2.0);
    const auto y = merge<hidden, heads, head_dim>(x);
    CHECK(y.local_share().data() == x.local_share().data());
    const auto z = merge<hidden, heads, head_dim>(leaf);
    CHECK(z.local_share().data() != leaf.local_share().data());
    leaf.write_local_share([](auto all) { all[0] = 7; });  // as an optimizer writes
    CHECK(z.local_share()[0] == 1);
    const auto constant = full<grid>(ctx, {2, 2, 3}, 1.0);
    auto own = merge<hidden, heads, head_dim>(constant).requires_grad();
    own.write_local_share([](auto all) { all[0] = 7; });
    CHECK(constant.local_share()[0] == 1);
  });
}

TEST_CASE("merge of a weight, and of a function that runs twice") {
  using S = strategy<mesh<dp>, zero3, fp64>;
  launch<S>({.dp = 2}, [](context& ctx) {
    parameter_registry registry;
    const int unit = registry.begin_unit("all");
    weight<S, dims<heads, head_dim>> w;
    registry.add(ctx, w, "w", {2, {2, 3}}, {0.5});
    parameter_store<cpu_backend, fp64> store(ctx, registry, config_of<zero3>());
    store.load_parameters([](const parameter_record&) { return std::vector<double>{0, 1, 2, 3, 4, 5}; });
    const auto gradient = [&](auto&& run) {
      tape recorded;
      const recording on(ctx, &recorded);
      store.begin_step(1);
      auto x = full<batch_tensor<S, double, dims<batch, hidden>>>(ctx, {2, 6}, 3.0).requires_grad();
      backward(sum(in_unit(ctx, store, unit, run, x)));
      store.end_micro_batch();
      store.finish_gradients();
      return on_host(all_gather<dp>(x.grad()));
    };
    const auto f = [&](const auto& x) {
      return merge<hidden, heads, head_dim>(square(w)) * x * merge<hidden, heads, head_dim>(w);
    };
    const auto once = gradient(f);
    const auto twice = gradient([&](const auto& x) { return checkpoint(f, x); });
    for (std::size_t i = 0; i < 12; ++i) {
      CHECK(once[i] == double((i % 6) * (i % 6) * (i % 6)));
      CHECK(twice[i] == once[i]);
    }
  });
}

TEST_CASE("merge refuses shares of the outer dimension that are no shares of the one") {
  using both = strategy<mesh<dp, tp>>;
  launch<both>({.dp = 2, .tp = 2}, [](context& ctx) {
    using over_tp = tensor<double, dims<heads, head_dim>, shard<heads, tp>>;
    CHECK_THROWS_WITH_AS(
        (merge<hidden, heads, head_dim>(zeros<over_tp>(ctx, {3, 2}))),
        "merge: of 3 heads with 2 elements each a rank along tp has at most 2, and of 6 hidden it would "
        "have 3, so that one of the heads lay on two ranks; choose a degree that divides 3",
        failure);
    merge<hidden, heads, head_dim>(zeros<over_tp>(ctx, {3, 1}));
    merge<hidden, heads, head_dim>(zeros<over_tp>(ctx, {1, 1}));
    // All have two elements, of the two that a rank would have; but the second rank of dp begins at the third.
    using over_two = tensor<double, dims<heads, head_dim>, shard<heads, dp, tp>>;
    CHECK_THROWS_WITH_AS((merge<hidden, heads, head_dim>(zeros<over_two>(ctx, {3, 2}))),
                         doctest::Contains("a rank along dp has at most 2, and of 6 hidden it would have 3"), failure);
    merge<hidden, heads, head_dim>(zeros<over_two>(ctx, {4, 2}));
  });
}
}  // namespace
