// Dimensions that ranks share though they don't divide them: padding is never seen, by values nor by gradients.
#include <cmath>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;
using weft::mesh;

// A user's own dimensions; `wide` is 7 long on three ranks, 3 a rank, `long_` 5, 2 a rank.
struct wide : dim_tag {
  static constexpr std::string_view name = "wide";
};
struct long_ : dim_tag {
  static constexpr std::string_view name = "long";
};
using whole = tensor<double, dims<long_, wide>>;
using by_wide = tensor<double, dims<long_, wide>, shard<wide, tp>>;
using by_long = tensor<double, dims<long_, wide>, shard<long_, tp>>;
constexpr std::int64_t rows = 5, columns = 7;

template <class F>
void three_ranks(F&& f) {
  launch<strategy<mesh<tp>>>({.tp = 3}, [&](context& ctx) {
    ctx.extents.add(wide::name, columns);
    ctx.extents.add(long_::name, rows);
    f(ctx);
  });
}
double number(std::int64_t i) { return double(i * i % 23) - 7; }
double weight_at(std::int64_t i) { return double(i * 5 % 13) - 6; }

// The conversions between x and y are the identity, forward and transposed: y, whole on every rank, has to be the
// numbers, and d(sum of y * weights)/dx the weights.
template <class X, class Y>
void check_identity(const X& x, const Y& y) {
  const whole weights = generate<whole>(*x.ctx, {rows, columns}, weight_at);
  require(y.held().shape == shape{2, {rows, columns}}, "padding was collected");
  for (std::int64_t i = 0; i < rows * columns; ++i)
    require(y.local_data()[i] == number(i), "element ", i, " is ", y.local_data()[i]);
  backward(sum(y * weights));
  std::int64_t offset[max_ndim] = {};
  detail::offsets_of<X>(*x.ctx, x.held().shape, offset);
  const auto gradient = x.grad();
  detail::each_element(x.held().shape, {2, {rows, columns}}, offset, [&](std::int64_t i, std::int64_t index) {
    const double wanted = index < 0 ? 0 : weight_at(index);
    require(gradient.local_data()[i] == wanted, "the gradient of element ", index, " is ", gradient.local_data()[i],
            ", not ", wanted);
  });
}
}  // namespace

TEST_CASE("conversions of a dimension that the ranks don't divide, and their gradients") {
  three_ranks([](context& ctx) {
    auto w = generate<whole>(ctx, {rows, columns}, number).requires_grad();
    check_identity(w, convert<invariant<tp>>(split<wide, tp>(w)));
    auto l = generate<whole>(ctx, {rows, columns}, number).requires_grad();
    check_identity(l, convert<invariant<tp>>(split<long_, tp>(l)));
    auto r = generate<whole>(ctx, {rows, columns}, number).requires_grad();
    check_identity(r, convert<invariant<tp>>(split<wide, tp>(convert<replicate<tp>>(r))));
    auto p = generate<whole>(ctx, {rows, columns}, number).requires_grad();
    check_identity(p, convert<invariant<tp>>(reduce_scatter<wide, tp>(convert<partial<tp>>(p))));
    auto q = generate<whole>(ctx, {rows, columns}, number).requires_grad();
    check_identity(q, convert<invariant<tp>>(reduce_scatter<long_, tp>(convert<partial<tp>>(q))));
    auto c = generate<by_wide>(ctx, {rows, columns}, number).requires_grad();
    check_identity(c, convert<invariant<tp>>(all_to_all<long_, tp>(c)));
    auto d = generate<by_long>(ctx, {rows, columns}, number).requires_grad();
    check_identity(d, convert<invariant<tp>>(all_to_all<wide, tp>(d)));
    auto g = generate<by_wide>(ctx, {rows, columns}, number).requires_grad();
    check_identity(g, all_reduce<tp>(convert<partial<tp>>(all_gather<tp>(g))));
  });
}

TEST_CASE("cross-entropy with label smoothing leaves padded columns out") {
  const auto run = [](context& ctx, auto logits) {
    using ids = tensor<std::int32_t, dims<long_>>;
    const auto targets = generate<ids>(ctx, {rows}, [](std::int64_t i) { return i == 2 ? -1 : i * 3 % columns; });
    logits.requires_grad();
    for (std::int64_t i = 0; i < logits.local_elements(); ++i)
      if (logits.local_data()[i] == 0) logits.local_data()[i] = 1e3;  // what padding holds must not matter
    const auto l = cross_entropy(logits, targets, {.label_smoothing = 0.1});
    const double value = *l.sum.local_data();
    backward(l.sum);
    return std::pair(value, logits.grad());
  };
  const auto numbers = [](std::int64_t i) { return 0.25 * double(i * i % 11) + 0.5; };  // never 0
  double wanted = 0;
  std::vector<double> gradients(rows * columns);
  launch<strategy<mesh<>, self>>({}, [&](context& ctx) {
    const auto [value, gradient] = run(ctx, generate<whole>(ctx, {rows, columns}, numbers));
    wanted = value;
    gradients.assign(gradient.local_data(), gradient.local_data() + rows * columns);
  });
  three_ranks([&](context& ctx) {
    const auto x = generate<by_wide>(ctx, {rows, columns}, numbers);
    const auto [value, gradient] = run(ctx, x);
    require(std::abs(value - wanted) < 1e-12, "the loss is ", value, ", not ", wanted);  // some roundings of 1e-16
    std::int64_t offset[max_ndim] = {};
    detail::offsets_of<by_wide>(ctx, x.held().shape, offset);
    const auto* g = gradient.local_data();
    detail::each_element(x.held().shape, {2, {rows, columns}}, offset, [&](std::int64_t i, std::int64_t index) {
      require(index < 0 ? g[i] == 0 : std::abs(g[i] - gradients[std::size_t(index)]) < 1e-12,
              "the gradient of element ", index, " is ", g[i]);
    });
  });
}

TEST_CASE("what padding would falsify is refused, and so are extents that nobody spoke of") {
  CHECK_THROWS_WITH_AS(three_ranks([](context& ctx) {
                         sum(zeros<by_wide>(ctx, {rows, columns}));
                       }),
                       doctest::Contains("a sum over dimension wide would add its padding"), weft::error);
  CHECK_THROWS_WITH_AS(three_ranks([](context& ctx) {
                         const auto x = zeros<by_wide>(ctx, {rows, columns});
                         contract<wide>(x, rename<long_, hidden>(x));
                       }),
                       doctest::Contains("a sum over dimension wide"), weft::error);
  CHECK_THROWS_WITH_AS(three_ranks([](context& ctx) {
                         zeros<by_wide>(ctx, {rows, columns + 1});
                       }),
                       doctest::Contains("can't share evenly"), weft::error);
  CHECK_THROWS_WITH_AS(three_ranks([](context& ctx) {
                         split<wide, tp>(zeros<whole>(ctx, {rows, columns + 1}));
                       }),
                       doctest::Contains("can't be sharded evenly"), weft::error);
  CHECK_THROWS_WITH_AS(three_ranks([](context& ctx) {
                         ctx.extents.add(wide::name, columns + 1);
                         all_gather<tp>(zeros<by_wide>(ctx, {rows, columns}));
                       }),
                       doctest::Contains("make them one extent"), weft::error);
}
