// Dimensions and axes are told apart by their tags, not by the characters of their names.
#include <doctest/doctest.h>

#include <weft/weft.hpp>

using namespace weft;

namespace {

namespace image {
struct width : dim_tag {
  static constexpr std::string_view name = "width";
};
struct rows : axis_tag {
  static constexpr std::string_view name = "rows";
};
}  // namespace image
namespace model {
struct width : dim_tag {
  static constexpr std::string_view name = "width";
};
struct rows : axis_tag {
  static constexpr std::string_view name = "rows";
};
}  // namespace model
struct own_tp : axis_tag {
  static constexpr std::string_view name = "tp";
};

// Equal placements are equal types, in whatever order they are named.
static_assert(std::same_as<place<shard<image::width, dp>, shard<model::width, tp>>,
                           place<shard<model::width, tp>, shard<image::width, dp>>>);
static_assert(
    std::same_as<place<partial<image::rows>, partial<model::rows>>, place<partial<model::rows>, partial<image::rows>>>);
static_assert(std::same_as<place<replicate<image::rows, model::rows>>, place<replicate<model::rows, image::rows>>>);
using both = place<shard<image::width, dp>, shard<model::width, tp>>;
static_assert(state_on<both, dp>.dim == id_of<image::width> && state_on<both, tp>.dim == id_of<model::width>);
static_assert(state_on<both, dp> != on_axis{holds::shard, id_of<model::width>} &&
              state_on<both, dp>.dim->name == "width");

TEST_CASE("degrees are those of the tag") {
  const degrees told = degrees{.tp = 2}.with<image::rows>(3).with<model::rows>(5).with<own_tp>(7);
  CHECK(told.of<image::rows>() == 3);
  CHECK(told.of<model::rows>() == 5);
  CHECK(told.of<tp>() == 2);
  CHECK(told.of<own_tp>() == 7);
  CHECK(told.product() == 2 * 3 * 5 * 7);
}

using square_matrix = dims<image::width, model::width>;

double number(std::int64_t i) { return double(i * i % 7) - 2; }

template <class F>
void on_two(F f) {
  for (const int n : {1, 2}) launch<strategy<mesh<tp>>>({.tp = n}, f);
}

}  // namespace

TEST_CASE("two dimensions with one name: sums, products and conversions take the one that is meant") {
  std::vector<double> expected(4 * 4);
  for (std::int64_t i = 0; i < 16; ++i) expected[std::size_t(i)] = number(i);
  on_two([&](context& ctx) {
    const auto x = generate<tensor<double, square_matrix>>(ctx, {4, 4}, number);
    const auto v = generate<tensor<double, dims<model::width>>>(ctx, {4}, number);
    const auto check = [&](const auto& y, const auto& wanted, const char* what) {
      for (std::size_t i = 0; i < wanted.size(); ++i)
        require(y[i] == wanted[i], what, ": element ", i, " is ", y[i], ", not ", wanted[i]);
    };
    check(on_host(all_gather<tp>(split<model::width, tp>(x))), expected, "gathered columns");
    check(on_host(all_gather<tp>(split<image::width, tp>(x))), expected, "gathered rows");
    check(on_host(all_gather<tp>(all_to_all<model::width, tp>(split<image::width, tp>(x)))), expected, "all-to-all");

    std::vector<double> of_rows(4), of_columns(4), product(4);
    for (std::size_t i = 0; i < 16; ++i) {
      of_rows[i / 4] += expected[i], of_columns[i % 4] += expected[i];
      product[i / 4] += expected[i] * number(std::int64_t(i % 4));
    }
    const auto columns = split<model::width, tp>(x);
    check(on_host(all_reduce<tp>(sum<model::width>(columns))), of_rows, "sums of rows");
    check(on_host(all_gather<tp>(sum<image::width>(columns))), of_columns, "sums of columns");
    check(on_host(all_reduce<tp>(contract<model::width>(columns, split<model::width, tp>(v)))), product, "product");
    check(on_host(all_gather<tp>(contract<model::width>(split<image::width, tp>(x), v))), product, "product by rows");
    check(on_host(all_gather<tp>(sum<model::width>(split<image::width, tp>(x) * v))), product, "broadcast product");
  });
}

TEST_CASE("the loss's dimensions are told apart by their tags") {
  using logits_type = tensor<double, dims<batch, image::width, vocab>>;
  static_assert(requires(logits_type l, tensor<std::int32_t, dims<batch, image::width>> t) { cross_entropy(l, t); });
  launch<strategy<mesh<tp>>>({.tp = 2}, [&](context& ctx) {
    const auto logits = generate<logits_type>(ctx, {2, 3, 4}, number);
    const auto targets =
        generate<tensor<std::int32_t, dims<batch, image::width>>>(ctx, {2, 3}, [](std::int64_t i) { return i % 4; });
    const auto whole = cross_entropy(logits, targets);
    const auto parts = cross_entropy(split<image::width, tp>(logits), split<image::width, tp>(targets));
    require(std::abs(item(whole.sum) - item(all_reduce<tp>(parts.sum))) < 1e-12, "the loss is ", item(whole.sum));
  });
}

TEST_CASE("two axes with one name are two axes") {
  launch<strategy<mesh<image::rows, model::rows>>>(
      degrees{}.with<image::rows>(2).with<model::rows>(3), [](context& ctx) {
        require(ctx.degree<image::rows>() == 2 && ctx.degree<model::rows>() == 3 && ctx.size() == 6,
                "the mesh is wrong");
        using one = tensor<double, dims<hidden>, shard<hidden, image::rows>>;
        using other = tensor<double, dims<hidden>, shard<hidden, model::rows>>;
        require(generate<one>(ctx, {6}, number).template local_extent<hidden>() == 3, "sharded over the wrong axis");
        require(generate<other>(ctx, {6}, number).template local_extent<hidden>() == 2, "sharded over the wrong axis");
        const auto ones_ = ones<tensor<double, dims<>>>(ctx, {});
        const auto x = convert<partial<image::rows>>(ones_);
        require(item(all_reduce<image::rows>(x)) == 1, "summed over the wrong axis");
      });
  CHECK_THROWS_WITH_AS(launch<strategy<mesh<image::rows>>>(degrees{}.with<model::rows>(3), [](context&) {}),
                       doctest::Contains("rows"), failure);
}
