// Dimensions that ranks share though they don't divide them: padding is never seen, by values nor by gradients. The
// laws hold this for every operator with drawn sizes and NaN in the padding; here are the values that tell what
// happens.
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
  launch<strategy<mesh<tp>>>({.tp = 3}, f);
}
double number(std::int64_t i) { return double(i * i % 23) - 7; }
double weight_at(std::int64_t i) { return double(i * 5 % 13) - 6; }

// What padding holds must not matter.
template <class X>
X poisoned(X x, double with = std::nan("")) {
  x.write_local_share([&](auto all) {
    detail::each_element(detail::placed(x), [&](std::int64_t i, std::int64_t index) {
      if (index < 0) all[std::size_t(i)] = with;
    });
  });
  return x;
}

// The conversions between x and y are the identity, forward and transposed: y, whole on every rank, has to be the
// numbers, and d(sum of y * weights)/dx the weights.
template <class X, class Y>
void check_identity(const X& x, const Y& y) {
  const whole weights = generate<whole>(*untyped(x).ctx, {rows, columns}, weight_at);
  require(untyped(y).held().shape == shape{2, {rows, columns}}, "padding was collected");
  for (std::int64_t i = 0; i < rows * columns; ++i)
    require(y.local_share()[i] == number(i), "element ", i, " is ", y.local_share()[i]);
  backward(sum(y * weights));
  const auto gradient = x.grad();
  detail::each_element(detail::placed(x), [&](std::int64_t i, std::int64_t index) {
    require(index < 0 || gradient.local_share()[i] == weight_at(index), "the gradient of element ", index, " is ",
            gradient.local_share()[i], ", not ", weight_at(index));
  });
}

TEST_CASE("a rank's run of a dimension, over one axis and over two") {
  launch<strategy<mesh<dp, tp>>>({.dp = 2, .tp = 2}, [](context& ctx) {
    const auto run = run_of<layout_of<tensor<double, dims<wide>, shard<wide, dp, tp>>>, wide>(ctx, 5);
    // Of 5, the first of dp has 3 and the second 2; of 3, the first of tp has 2 and the second 1.
    const std::int64_t first[] = {0, 2, 3, 5}, valid[] = {2, 1, 2, 0};
    require(run.local == 2 && run.first == first[ctx.rank().here()] && run.valid == valid[ctx.rank().here()], "rank ",
            ctx.rank().here(), " has ", run.valid, " from ", run.first);
    const auto all = generate<tensor<double, dims<wide>>>(ctx, {5}, number);
    const auto back = all_gather<dp>(all_gather<tp>(poisoned(split<wide, tp>(split<wide, dp>(all)))));
    require(back.global_extent<wide>() == 5 && back.local_extent<wide>() == 5, "padding was collected");
    for (std::int64_t i = 0; i < 5; ++i) require(back.local_share()[i] == number(i), "element ", i);
  });
}

TEST_CASE("conversions of a dimension that the ranks don't divide, and their gradients") {
  three_ranks([](context& ctx) {
    auto w = generate<whole>(ctx, {rows, columns}, number).requires_grad();
    check_identity(w, convert<invariant<tp>>(poisoned(split<wide, tp>(w))));
    auto l = generate<whole>(ctx, {rows, columns}, number).requires_grad();
    check_identity(l, convert<invariant<tp>>(poisoned(split<long_, tp>(l))));
    auto r = generate<whole>(ctx, {rows, columns}, number).requires_grad();
    check_identity(r, convert<invariant<tp>>(poisoned(split<wide, tp>(convert<replicate<tp>>(r)))));
    auto p = generate<whole>(ctx, {rows, columns}, number).requires_grad();
    check_identity(p, convert<invariant<tp>>(reduce_scatter<wide, tp>(convert<partial<tp>>(p))));
    auto q = generate<whole>(ctx, {rows, columns}, number).requires_grad();
    check_identity(q, convert<invariant<tp>>(reduce_scatter<long_, tp>(convert<partial<tp>>(q))));
    auto c = poisoned(generate<by_wide>(ctx, {rows, columns}, number)).requires_grad();
    check_identity(c, convert<invariant<tp>>(poisoned(all_to_all<long_, tp>(c))));
    auto d = poisoned(generate<by_long>(ctx, {rows, columns}, number)).requires_grad();
    check_identity(d, convert<invariant<tp>>(poisoned(all_to_all<wide, tp>(d))));
    auto g = poisoned(generate<by_wide>(ctx, {rows, columns}, number)).requires_grad();
    check_identity(g, all_reduce<tp>(convert<partial<tp>>(all_gather<tp>(g))));
  });
}

TEST_CASE("functions that make NaN or infinity of padding don't reach what is summed") {
  three_ranks([](context& ctx) {
    auto x =
        generate<by_wide>(ctx, {rows, columns}, [](std::int64_t i) { return 1.0 + double(i % 5); }).requires_grad();
    const auto loss = all_reduce<tp>(sum(log(x) * rsqrt(x) + reciprocal(x)));  // zeros in the padding: 1/0, log 0
    double wanted = 0;
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const double v = 1.0 + double(i % 5);
      wanted += std::log(v) / std::sqrt(v) + 1 / v;
    }
    require(std::abs(item(loss) - wanted) < 1e-12 * wanted, "the sum is ", item(loss), ", not ", wanted);
    auto w = generate<tensor<double, dims<wide, hidden>, shard<wide, tp>>>(ctx, {columns, 2}, number).requires_grad();
    backward(sum(all_reduce<tp>(contract<wide>(log(x), w))));
    detail::each_element(detail::placed(w), [&](std::int64_t i, std::int64_t index) {
      require(index < 0 || std::isfinite(w.grad().local_share()[i]), "the gradient of element ", index,
              " is not finite");
    });
  });
}

TEST_CASE("tokens that are padding count for nothing") {
  using logits = tensor<double, dims<batch, vocab>, shard<batch, tp>>;
  using ids = tensor<std::int32_t, dims<batch>, shard<batch, tp>>;
  three_ranks([](context& ctx) {
    const auto x = poisoned(generate<logits>(ctx, {rows, columns}, number));
    const auto l = cross_entropy(x, generate<ids>(ctx, {rows}, [](std::int64_t i) { return i; }));
    require(item(all_reduce<tp>(l.count)) == rows, "counted ", item(all_reduce<tp>(l.count)));
    require(std::isfinite(item(all_reduce<tp>(l.sum))), "padding was added");
  });
}

TEST_CASE("a vocabulary's padding has no part in a loss, however large it is") {
  using logits = tensor<double, dims<batch, vocab>, shard<vocab, tp>>;
  double loss = 0, sums[std::size_t{rows}] = {};
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < columns; ++i) sums[row] += std::exp(number(row * columns + i));
    loss += std::log(sums[row]) - number(row * columns + row);
  }
  for (const double padding : {std::nan(""), 1e300, -1e300})
    three_ranks([&](context& ctx) {
      const auto x = poisoned(generate<logits>(ctx, {rows, columns}, number), padding).requires_grad();
      const auto ids = generate<tensor<std::int32_t, dims<batch>>>(ctx, {rows}, [](std::int64_t i) { return i; });
      const auto l = cross_entropy(x, ids);
      require(std::abs(item(l.sum) - loss) < 1e-12 * loss, "the loss is ", item(l.sum), ", not ", loss);
      backward(l.sum);
      const auto gradient = x.grad();
      detail::each_element(detail::placed(x), [&](std::int64_t i, std::int64_t index) {
        if (index < 0) return;
        const std::int64_t row = index / columns, column = index % columns;
        const double wanted = std::exp(number(index)) / sums[row] - (row == column);
        require(std::abs(gradient.local_share()[i] - wanted) < 1e-13, "element ", index);
      });
    });
}

TEST_CASE("sums, means and norms over a dimension that the ranks don't divide") {
  three_ranks([](context& ctx) {
    double total = 0;
    for (std::int64_t i = 0; i < rows * columns; ++i) total += number(i);
    const auto x = poisoned(generate<by_wide>(ctx, {rows, columns}, number));
    require(item(all_reduce<tp>(sum(x))) == total, "sum");
    require(std::abs(item(all_reduce<tp>(mean(x))) - total / double(rows * columns)) < 1e-12, "mean");
  });
}

TEST_CASE("two tensors of one dimension have one extent, and their shares' lengths don't hide another") {
  CHECK_THROWS_WITH_AS(three_ranks([](context& ctx) {
                         zeros<by_wide>(ctx, {rows, 8}) + zeros<by_wide>(ctx, {rows, 7});  // 3 a rank, both
                       }),
                       doctest::Contains("dimension wide has 8 elements on one side and 7 on the other"),
                       weft::failure);
}

TEST_CASE("several vocabularies and lengths live on one rank, and a renamed dimension keeps its extent") {
  three_ranks([](context& ctx) {
    const auto gathered = [](const auto& x) { return convert<invariant<tp>>(x).template global_extent<wide>(); };
    const auto a = generate<by_wide>(ctx, {rows, 7}, number), b = generate<by_wide>(ctx, {rows, 8}, number);
    require(gathered(a) == 7 && gathered(b) == 8, "extents were mixed up");
    const auto c = convert<invariant<tp>>(rename<wide, ffn>(a));
    require(c.global_extent<ffn>() == 7 && c.local_extent<ffn>() == 7, "renamed");
  });
}

TEST_CASE("attention pairs no queries with another group's keys, nor with padding") {
  using q = tensor<double, dims<batch, seq, heads, head_dim>, shard<heads, tp>>;
  using k = tensor<double, dims<batch, seq, kv_heads, head_dim>, shard<kv_heads, tp>>;
  CHECK_THROWS_WITH_AS(launch<strategy<mesh<tp>>>({.tp = 4},
                                                  [](context& ctx) {
                                                    const auto x = ones<k>(ctx, {1, 2, 6, 4});
                                                    attention(ones<q>(ctx, {1, 2, 24, 4}), x, x);
                                                  }),
                       doctest::Contains("this rank has 6 of 24 query heads and 2 of 6 key and value heads"),
                       weft::failure);
}

TEST_CASE("rotary positions of a sequence that the ranks don't divide, as long as the table") {
  using q = tensor<double, dims<batch, seq, heads, head_dim>>;
  three_ranks([](context& ctx) {
    rope_table table;
    for (local_array* part : {&table.cos, &table.sin}) {
      *part = ctx.make(dtype::f64, {2, {5, 2}});
      for (int i = 0; i < 10; ++i) part->as<double>()[i] = part == &table.cos ? std::cos(i) : std::sin(i);
    }
    const auto x = normal<q>(ctx, "x", {1, 5, 1, 4});
    const auto apart = convert<invariant<tp>>(rope(poisoned(split<seq, tp>(x)), table)), all = rope(x, table);
    for (std::int64_t i = 0; i < 20; ++i) require(apart.local_share()[i] == all.local_share()[i], "element ", i);
  });
}

TEST_CASE("what a program sees doesn't depend on whether an axis has one rank") {
  for (const int ranks : {1, 2})
    launch<strategy<mesh<tp>>>({.tp = ranks}, [](context& ctx) {
      const auto whole_weight = ones<tensor<double, dims<wide>>>(ctx, {4});
      auto w = split<wide, tp>(whole_weight).requires_grad();
      backward(all_reduce<tp>(sum(w * w)));
      adamw_state state;
      adamw_update(w, w.grad(), state, {.lr = 0.5});
      require(w.local_share()[0] != 1 && whole_weight.local_share()[0] == 1, "the whole weight was trained too");

      auto leaf = ones<tensor<double, dims<wide>>>(ctx, {4}).requires_grad();
      const auto part = split<wide, tp>(leaf);
      backward(all_reduce<tp>(sum(part * part)));
      require(leaf.has_grad() && !part.has_grad(), "a gradient is where the leaf isn't");
    });
}
}  // namespace
