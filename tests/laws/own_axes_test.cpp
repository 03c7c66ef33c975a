// The laws of operators along axes of a user's own, whatever they are called, and of dimensions that share a name.
#include <cmath>

#include <doctest/doctest.h>

#include <weft/op/contract.hpp>
#include <weft/op/elementwise.hpp>
#include <weft/op/formula.hpp>
#include <weft/op/reduce.hpp>
#include <weft/testing/laws.hpp>

#include "sample.hpp"

namespace {
using namespace weft;

struct rows : axis_tag {
  static constexpr std::string_view name = "rows";
};
struct columns : axis_tag {
  static constexpr std::string_view name = "columns";
};
struct plane : axis_tag {
  static constexpr std::string_view name = "rows";  // another axis with the name of the first
};
struct pixel : dim_tag {
  static constexpr std::string_view name = "pixel";
};
struct twin : dim_tag {
  static constexpr std::string_view name = "pixel";  // another dimension with that name
};
template <class Dims, class... Placements>
using real = tensor<double, Dims, Placements...>;

const testing::options sample{.every = weft_test::sample_stride()};
using grid = strategy<mesh<rows, columns>>;
using line = strategy<mesh<rows>>;

TEST_CASE("gradients along axes of one's own, uneven and with NaN in the padding") {
  const auto product = [](const auto& a, const auto& b) { return contract<pixel>(a, b); };
  testing::check_gradients<grid, real<dims<batch, pixel>, shard<batch, rows>, shard<pixel, columns>>,
                           real<dims<pixel, hidden>, shard<pixel, columns>>>("product over columns", product, sample);
  testing::check_gradients<grid, real<dims<batch, pixel>, partial<rows>>,
                           real<dims<pixel, hidden>, shard<hidden, columns>>>("product of a pending sum", product,
                                                                              sample);
  testing::check_gradients<line, real<dims<batch, pixel>, replicate<rows>>>(
      "mean of a replicated one", [](const auto& x) { return mean(x); }, sample);
}

TEST_CASE("gradients along three axes, two of one name") {
  testing::check_gradients<strategy<mesh<rows, plane, columns>>,
                           real<dims<batch, pixel>, shard<batch, rows, plane>, shard<pixel, columns>>>(
      "sum over all", [](const auto& x) { return sum(x * x); }, sample);
}

TEST_CASE("dimensions of one name are drawn apart") {
  std::int64_t wide = 0, narrow = 0;
  testing::check_gradients<line, real<dims<pixel>, shard<pixel, rows>>, real<dims<twin>>>(
      "outer product of twins",
      [&](const auto& a, const auto& b) {
        if (untyped(a).ctx->size() == 1)
          wide = a.template global_extent<pixel>(), narrow = b.template global_extent<twin>();
        return a * b;
      },
      {.base = {{pixel{}, 5}, {twin{}, 3}}, .even = {pixel{}}, .every = sample.every});
  CHECK(wide % 5 == 0);
  CHECK(narrow == 3);
}

struct square {
  static constexpr std::string_view name = "square";
  template <class T>
  T forward(T x) const {
    return x * x;
  }
  template <class T>
  T vjp(T dy, T x) const {
    return 2 * dy * x;
  }
};

TEST_CASE("what is wrong along an axis of one's own alone is told") {
  if (weft_test::sample_stride() > 1) return;  // needs a mesh of several ranks
  const auto by_rank = [] {
    testing::check_gradients<line, real<dims<pixel>, shard<pixel, rows>>>(
        "by rank", [](const auto& x) { return x * double(1 + untyped(x).ctx->template index<rows>().here()); });
  };
  CHECK_THROWS_WITH_AS(by_rank(), doctest::Contains("by rank, rows 4: all ranks' value and one rank's"), failure);
  const auto padding = [] {  // a local sum that reads the padding
    testing::check_gradients<line, real<dims<pixel>, shard<pixel, rows>>>("reads padding", [](const auto& x) {
      double total = 0;
      for (const double v : x.local_share()) total += v;
      return x * (total == total ? 1.0 : 2.0);
    });
  };
  CHECK_THROWS_WITH_AS(padding(), doctest::Contains("all ranks' value and one rank's"), failure);
}

TEST_CASE("a mesh whose axis has a fixed degree is refused") {
  CHECK_THROWS_WITH_AS((testing::check_gradients<strategy<mesh<axis<rows, 2>>>, real<dims<pixel>>>(
                           "fixed", [](const auto& x) { return elementwise(square{}, x); })),
                       doctest::Contains("axis rows of its mesh has a degree of its own"), failure);
}

}  // namespace
