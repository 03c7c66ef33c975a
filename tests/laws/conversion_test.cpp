// Every conversion keeps the value, and it and its gradient are adjoint: weft/testing/adjoint.hpp, on one and two axes;
// and gather after scatter is the identity.
#include <doctest/doctest.h>

#include <weft/op/convert.hpp>
#include <weft/op/create.hpp>
#include <weft/op/ring.hpp>
#include <weft/testing/adjoint.hpp>

#include "sample.hpp"

namespace {

using namespace weft;
using testing::meshes, testing::on_ranks;
using d3 = dims<batch, seq, hidden>;
template <class... Ps>
using real = tensor<double, d3, Ps...>;

#define WEFT_CONVERSION(expression, ...)                                                 \
  testing::check_conversion<real<__VA_ARGS__>>(#expression " of " #__VA_ARGS__,          \
                                               [](const auto& v) { return expression; }, \
                                               {.every = weft_test::sample_stride()})
const testing::options even{.even = {batch{}, seq{}, hidden{}}, .every = weft_test::sample_stride()};

TEST_CASE("conversions of the table along one axis") {
  WEFT_CONVERSION((convert<replicate<tp>>(v)));
  WEFT_CONVERSION((convert<partial<tp>>(v)));
  WEFT_CONVERSION((split<seq, tp>(v)));
  WEFT_CONVERSION((convert<partial<tp>>(v)), replicate<tp>);
  WEFT_CONVERSION((split<hidden, tp>(v)), replicate<tp>);
  WEFT_CONVERSION((all_reduce<tp>(v)), partial<tp>);
  WEFT_CONVERSION((convert<replicate<tp>>(v)), partial<tp>);
  WEFT_CONVERSION((reduce_scatter<batch, tp>(v)), partial<tp>);
  WEFT_CONVERSION((all_gather<tp>(v)), shard<hidden, tp>);
  WEFT_CONVERSION((convert<invariant<tp>>(v)), shard<seq, tp>);
  WEFT_CONVERSION((all_to_all<batch, tp>(v)), shard<seq, tp>);
  WEFT_CONVERSION((all_to_all<hidden, tp>(v)), shard<batch, tp>);
  testing::check_adjoint<real<shard<seq, tp>>>(
      "shift<tp>(v)", [](const auto& v) { return shift<tp>(v); }, even);
}

TEST_CASE("conversions along one axis leave the other as it is") {
  WEFT_CONVERSION((convert<replicate<tp>>(v)), shard<batch, dp>);
  WEFT_CONVERSION((convert<partial<tp>>(v)), partial<dp>);
  WEFT_CONVERSION((all_reduce<tp>(v)), partial<dp>, partial<tp>);
  WEFT_CONVERSION((split<seq, tp>(v)), partial<dp>, replicate<tp>);
  WEFT_CONVERSION((reduce_scatter<hidden, tp>(v)), replicate<dp>, partial<tp>);
  WEFT_CONVERSION((all_gather<tp>(v)), replicate<dp>, shard<hidden, tp>);
  WEFT_CONVERSION((all_to_all<batch, tp>(v)), shard<hidden, dp>, shard<seq, tp>);
}

TEST_CASE("conversions of a dimension over two axes") {
  WEFT_CONVERSION((split<seq, tp>(v)), shard<seq, dp>);
  WEFT_CONVERSION((reduce_scatter<seq, dp>(v)), shard<seq, tp>, partial<dp>);
  WEFT_CONVERSION((all_gather<tp>(v)), shard<seq, dp, tp>);
  WEFT_CONVERSION((convert<invariant<dp>>(v)), shard<seq, tp, dp>);
  WEFT_CONVERSION((all_to_all<hidden, tp>(v)), shard<seq, dp, tp>);
  WEFT_CONVERSION((all_to_all<seq, tp>(v)), shard<seq, dp>, shard<hidden, tp>);
  testing::check_adjoint<real<shard<seq, tp, dp>>>(
      "shift<dp>(v)", [](const auto& v) { return shift<dp>(v); }, even);
  WEFT_CONVERSION((all_gather<dp>(all_gather<tp>(split<seq, tp>(split<seq, dp>(v))))));
}

TEST_CASE("conversions in turn") {
  WEFT_CONVERSION((all_gather<tp>(split<seq, tp>(v))));
  WEFT_CONVERSION((convert<invariant<dp>>(split<hidden, dp>(v))));
  WEFT_CONVERSION((all_reduce<tp>(convert<partial<tp>>(v))));
  WEFT_CONVERSION((reduce_scatter<hidden, tp>(convert<partial<tp>>(v))));
  WEFT_CONVERSION((all_to_all<seq, tp>(all_to_all<batch, tp>(v))), shard<seq, tp>);
  WEFT_CONVERSION((split<seq, tp>(split<seq, dp>(v))));
  WEFT_CONVERSION((all_to_all<seq, tp>(v)), shard<seq, dp>, shard<hidden, tp>);
  WEFT_CONVERSION((all_to_all<batch, dp>(v)), shard<seq, tp, dp>);
}

TEST_CASE("shift hands each slice to the next rank of its ring") {
  for (const degrees& mesh : meshes)
    on_ranks(mesh, [](context& ctx) {
      const auto y =
          shift<tp>(generate<tensor<double, dims<seq>, shard<seq, tp>>>(ctx, {24}, [](std::int64_t i) { return i; }));
      const int n = ctx.degree<tp>(), from = (ctx.index<tp>().here() + n - 1) % n;
      for (std::int64_t i = 0; i < y.local_elements(); ++i)
        require(y.local_share()[i] == double(from * y.local_share().size() + i), "element ", i, " is ",
                y.local_share()[i]);
    });
}

TEST_CASE("slices of a dimension that the ranks don't divide don't change places") {
  CHECK_THROWS_WITH_AS(
      on_ranks({.tp = 4},
               [](context& ctx) { shift<tp>(full<tensor<double, dims<seq>, shard<seq, tp>>>(ctx, {6}, 1)); }),
      doctest::Contains("shift<tp>(x): dimension seq has 6 elements, which 4 ranks don't divide"), weft::failure);
}

}  // namespace
