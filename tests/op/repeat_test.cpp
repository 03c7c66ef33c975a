// Elements several times: extents, values in every dimension, and what is refused.
#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

using known = tensor<float, dims<batch, extent<heads, 3>, seq>, shard<seq, tp>, partial<dp>>;
static_assert(std::same_as<decltype(repeat<heads>(known{}, 2)),
                           tensor<float, dims<batch, heads, seq>, shard<seq, tp>, partial<dp>>>);

TEST_CASE("repeat: the copies of an element together") {
  launch<strategy<mesh<tp>>>({.tp = 2}, [](context& ctx) {
    using halves = tensor<double, dims<batch, heads, head_dim>, shard<head_dim, tp>>;
    const auto x = generate<halves>(ctx, {2, 3, 4}, [](std::int64_t i) { return double(i); });
    const auto y = repeat<heads>(x, 2);
    CHECK(y.template global_extent<heads>() == 6);
    CHECK(y.template global_extent<head_dim>() == 4);
    const auto all = on_host(all_gather<tp>(y));
    for (std::size_t i = 0; i < 48; ++i) CHECK(all[i] == double(i / 24 * 12 + i % 24 / 4 / 2 * 4 + i % 4));
    const auto first = on_host(all_gather<tp>(repeat<batch>(x, 3)));
    for (std::size_t i = 0; i < 72; ++i) CHECK(first[i] == double(i / 12 / 3 * 12 + i % 12));
    const auto last = on_host(repeat<head_dim>(all_gather<tp>(x), 2));
    for (std::size_t i = 0; i < 48; ++i) CHECK(last[i] == double(i / 2));
    CHECK(repeat<heads>(x, 1).local_share().data() == x.local_share().data());
    CHECK_THROWS_WITH_AS(repeat<heads>(x, 0), "repeat of dimension heads: 0 times; an element is there at least once",
                         failure);
    for (const std::int64_t times : {std::int64_t{1} << 54, std::int64_t{1} << 61, INT64_MAX})
      CHECK_THROWS_WITH_AS(repeat<heads>(x, times), doctest::Contains("elements is more than 2^58 elements"), failure);
  });
}

}  // namespace
