// Numbers made to hurt: long sums, equal values, large offsets, one-element extents. What is exact has to be exact,
// what isn't good to a few roundings, on every instruction set of this machine; sums have the same bits on all of them.
#include <cmath>
#include <utility>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

template <class F>
void on_every_isa(F&& f) {
  const cpu::isa before = cpu::current_isa();
  for (const cpu::isa level :
       {cpu::isa::portable, cpu::isa::avx2, cpu::isa::avx512, cpu::isa::avx512_bf16, cpu::isa::amx}) {
    if (!cpu::has_isa(level)) continue;
    cpu::use_isa(level);
    INFO("instruction set " << static_cast<int>(level));
    launch<strategy<mesh<>>>({}, f);
  }
  cpu::use_isa(before);
}
using tall = tensor<float, dims<batch, hidden>>;
using column = tensor<float, dims<batch>>;
using row = tensor<float, dims<hidden>>;

}  // namespace

TEST_CASE("a million rows are added up to a rounding or two, along either dimension") {
  std::vector<float> columns, rows, all;
  on_every_isa([&](context& ctx) {
    constexpr std::int64_t n = 1 << 20;
    const auto x = full<tall>(ctx, {n, 3}, 0.1);
    const double wanted = double(0.1f) * n;
    for (const float s : on_host(sum<batch>(x))) CHECK(std::abs(s / wanted - 1) < 2e-7);
    for (const float s : on_host(mean<batch>(x))) CHECK(std::abs(s / double(0.1f) - 1) < 2e-7);
    const auto wide = full<tall>(ctx, {3, n}, 0.1);
    for (const float s : on_host(sum<hidden>(wide))) CHECK(std::abs(s / wanted - 1) < 2e-7);
    CHECK(std::abs(item(sum(x)) / (3 * wanted) - 1) < 2e-7);
    auto bias = zeros<row>(ctx, {3}).requires_grad();
    backward(sum(x * (x + bias)));
    for (const float g : on_host(bias.grad())) CHECK(std::abs(g / wanted - 1) < 2e-7);

    const auto mixed = normal<tall>(ctx, "mixed", {30011, 37});
    const auto same = [&](std::vector<float>& first, std::vector<float> now) {
      if (first.empty()) first = now;
      CHECK(first == now);
    };
    same(columns, on_host(sum<batch>(mixed)));
    same(rows, on_host(sum<hidden>(mixed)));
    same(all, {item(sum(mixed))});
  });
}

TEST_CASE("twenty million ones are counted") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    const auto ones_of = full<column>(ctx, {20000000}, 1);
    CHECK(item(sum(ones_of)) == 20000000);
    CHECK(item(sum(sum<batch>(full<tall>(ctx, {20000000, 1}, 1)))) == 20000000);
  });
}

TEST_CASE("a sum hardly depends on how many ranks form it") {
  for (const int ranks : {1, 2, 4, 8})
    launch<strategy<mesh<dp>>>({.dp = ranks}, [&](context& ctx) {
      const auto x = full<tensor<float, dims<batch, hidden>, shard<batch, dp>>>(ctx, {1000000, 1}, 0.1);
      CHECK(std::abs(item(sum(all_reduce<dp>(sum<batch>(x)))) / (double(0.1f) * 1e6) - 1) < 3e-7);
    });
}

TEST_CASE("a million rows give the weight of a norm its gradient, and one token its embedding's") {
  on_every_isa([](context& ctx) {
    constexpr std::int64_t n = 1000003;
    const auto x = from_global<tall>(ctx, {n, 2}, [] {
      std::vector<float> pairs(2 * n, -1.0f);  // of which mean is 0 and variance 1
      for (std::size_t i = 0; i < pairs.size(); i += 2) pairs[i] = 1;
      return pairs;
    }());
    const auto near = [](const std::vector<float>& gradient, double wanted) {  // 64 rows in order, then a tree
      for (const float g : gradient) CHECK(std::abs(std::abs(double(g)) / wanted - 1) < 1.5e-6);
    };
    const double wanted = double(0.1f) * n;
    auto weight = ones<row>(ctx, {2}).requires_grad(), bias = zeros<row>(ctx, {2}).requires_grad();
    const auto dy = full<tall>(ctx, {n, 2}, 0.1);
    backward(sum(rms_norm(x, weight, 0) * dy));
    near(on_host(weight.grad()), wanted);
    weight.zero_grad();
    backward(sum(layer_norm(x, weight, bias, 0) * dy));
    near(on_host(weight.grad()), wanted);
    near(on_host(bias.grad()), wanted);

    auto table = zeros<tensor<float, dims<vocab, hidden>>>(ctx, {2, 2}).requires_grad();
    backward(sum(embedding(full<tensor<std::int32_t, dims<batch>>>(ctx, {n}, 1), table) * dy));
    const auto of_table = on_host(table.grad());
    CHECK((of_table[0] == 0 && of_table[1] == 0));
    near({of_table[2], of_table[3]}, wanted);
  });
}

// Equal logits have equal chances, however large they are: -log(1/2), and gradients of a half.
template <class T>
void two_equal_logits(context& ctx) {
  using logits = tensor<T, dims<batch, vocab>>;
  const std::int32_t first[] = {0};
  const auto target = from_global<tensor<std::int32_t, dims<batch>>>(ctx, {1}, first);
  for (const double size : {0.0, 100.0, 1e4, 1e6, 1e8, 1e30}) {
    CAPTURE(size);
    auto x = full<logits>(ctx, {1, 2}, size).requires_grad();
    const auto l = cross_entropy(x, target);
    CHECK(double(item(l.sum)) == doctest::Approx(std::log(2.0)).epsilon(1e-7));
    backward(l.sum);
    const auto g = on_host(x.grad());
    CHECK(double(float(g[0])) == doctest::Approx(-0.5).epsilon(2e-7));
    CHECK(double(float(g[1])) == doctest::Approx(0.5).epsilon(2e-7));
  }
}
TEST_CASE("cross-entropy of equal logits, and of smoothed ones beside a huge one") {
  on_every_isa([](context& ctx) {
    two_equal_logits<float>(ctx);
    two_equal_logits<bf16>(ctx);
    using logits = tensor<float, dims<batch, vocab>>;
    const std::int32_t first[] = {0};
    const auto target = from_global<tensor<std::int32_t, dims<batch>>>(ctx, {1}, first);
    const float ordinary[] = {20, 10};
    const auto small = cross_entropy(from_global<logits>(ctx, {1, 2}, ordinary), target);
    CHECK(double(item(small.sum)) == doctest::Approx(std::log1p(std::exp(-10.0))).epsilon(1e-6));
    const float huge[] = {1e30f, 0, 0, 0};
    const auto smoothed = cross_entropy(from_global<logits>(ctx, {1, 4}, huge), target, {.label_smoothing = 0.1});
    CHECK(double(item(smoothed.sum)) == doctest::Approx(0.1 * 0.75 * 1e30).epsilon(1e-6));
  });
}
TEST_CASE("cross-entropy over a sharded vocabulary, of logits that are all alike and large") {
  launch<strategy<mesh<tp>>>({.tp = 2}, [](context& ctx) {
    const std::int32_t which[] = {0, 3};
    const auto target = from_global<tensor<std::int32_t, dims<batch>>>(ctx, {2}, which);
    auto x = full<tensor<float, dims<batch, vocab>, shard<vocab, tp>>>(ctx, {2, 4}, 1e6).requires_grad();
    const auto l = cross_entropy(x, target);
    CHECK(double(item(l.sum)) == doctest::Approx(2 * std::log(4.0)).epsilon(1e-6));
    backward(l.sum);
    for (const float g : x.grad().local_share()) CHECK((std::abs(g - 0.25) < 1e-7 || std::abs(g + 0.75) < 1e-7));
  });
}

TEST_CASE("attention's gradients beside large scores, and over one token") {
  on_every_isa([](context& ctx) {
    using heads_of = tensor<float, dims<batch, seq, heads, head_dim>>;
    for (const double size : {1.0, 100.0, 1e3, 1e4}) {  // scores up to 2e8
      auto q = full<heads_of>(ctx, {1, 4, 1, 4}, size), k = full<heads_of>(ctx, {1, 4, 1, 4}, size);
      auto v = normal<heads_of>(ctx, "v", {1, 4, 1, 4}).requires_grad();
      backward(sum(attention(q, k, v, {.causal = false})));
      for (const float g : on_host(v.grad())) CHECK(std::abs(g - 1) < 1e-6);
    }
    auto q = normal<heads_of>(ctx, "q", {2, 1, 2, 8}).requires_grad(),
         k = normal<heads_of>(ctx, "k", {2, 1, 2, 8}).requires_grad();
    const auto v = normal<heads_of>(ctx, "v", {2, 1, 2, 8}), dy = normal<heads_of>(ctx, "dy", {2, 1, 2, 8});
    backward(sum(attention(q, k, v) * dy));
    for (const auto& g : {on_host(q.grad()), on_host(k.grad())})
      for (const float one : g) CHECK(one == 0);
  });
}

TEST_CASE("a value that a query does not see has no part in its gradients, however large it is") {
  on_every_isa([](context& ctx) {
    using heads_of = tensor<float, dims<batch, seq, heads, head_dim>>;
    const auto three = [&](std::vector<float> numbers) { return from_global<heads_of>(ctx, {1, 3, 1, 1}, numbers); };
    for (const float last : {1.0f, 1e4f, 1e8f, 1e30f}) {
      auto q = three({1, 1, 1}).requires_grad(), k = three({0, 1, 0}).requires_grad();
      backward(sum(attention(q, k, three({0, 1, last})) * three({0, 1, 0})));
      CHECK(std::abs(on_host(q.grad())[1] - 0.196611933) < 1e-7);
      CHECK(std::abs(on_host(k.grad())[0] + 0.196611933) < 1e-7);
    }
  });
}

TEST_CASE("layer_norm of rows that hardly vary, and of one column") {
  on_every_isa([](context& ctx) {
    std::vector<float> x;
    for (int i = 0; i < 6; ++i) x.insert(x.end(), {0.1f, 0.1001f, 0.10003f, 0.10002f, 0.10007f});
    const std::int64_t n = 30;
    const auto weight = full<row>(ctx, {n}, 1), bias = zeros<row>(ctx, {n});
    const auto y = on_host(layer_norm(from_global<tall>(ctx, {1, n}, x), weight, bias, 0));
    double mean_of = 0, variance = 0;
    for (const float e : x) mean_of += double(e) / double(n);
    for (const float e : x) variance += (double(e) - mean_of) * (double(e) - mean_of) / double(n);
    for (std::size_t i = 0; i < x.size(); ++i)
      CHECK(std::abs(y[i] - (double(x[i]) - mean_of) / std::sqrt(variance)) < 1e-6);

    auto one = normal<tall>(ctx, "one", {5, 1}).requires_grad();
    const auto w = normal<row>(ctx, "w", {1}), b = zeros<row>(ctx, {1});
    backward(sum(layer_norm(one, w, b, 1e-12) * normal<tall>(ctx, "dy", {5, 1})));
    for (const float g : on_host(one.grad())) CHECK(g == 0);
  });
}

TEST_CASE("numbers that mean nothing are refused by name") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    const auto x = normal<tall>(ctx, "x", {2, 3});
    const auto w = ones<row>(ctx, {3});
    for (const double eps : {-1.0, std::nan(""), double(INFINITY)}) {
      CHECK_THROWS_WITH_AS(rms_norm(x, w, eps), doctest::Contains("rms_norm: eps is"), failure);
      CHECK_THROWS_WITH_AS(layer_norm(x, w, w, eps), doctest::Contains("layer_norm: eps is"), failure);
    }
    const auto q = normal<tensor<float, dims<batch, seq, heads, head_dim>>>(ctx, "q", {1, 2, 1, 4});
    CHECK_THROWS_WITH_AS(attention(q, q, q, {.scale = std::nan("")}), doctest::Contains("attention: scale is nan"),
                         failure);
    const auto table = normal<tensor<float, dims<vocab, hidden>>>(ctx, "table", {4, 3});
    const std::int32_t beyond[] = {1, 4}, ignored[] = {-1, 3};
    using ids = tensor<std::int32_t, dims<batch>>;
    CHECK_THROWS_WITH_AS(embedding(from_global<ids>(ctx, {2}, beyond), table),
                         doctest::Contains("the token 4 is outside"), failure);
    CHECK(on_host(embedding(from_global<ids>(ctx, {2}, ignored), table))[0] == 0);
    CHECK_THROWS_WITH_AS(from_global<ids>(ctx, {3}, beyond), doctest::Contains("was given 2 numbers"), failure);
  });
}

TEST_CASE("factors beyond the numbers of fp32, gradients of large numbers") {
  on_every_isa([](context& ctx) {
    const auto x = full<row>(ctx, {3}, 1e-10);
    const auto near = [](float got, double wanted) { CHECK(std::abs(got / wanted - 1) < 4e-7); };
    near(on_host(x / 1e-40)[0], double(1e-10f) * 1e40);
    near(on_host(scale(full<row>(ctx, {3}, 1e20), -3e-39))[0], -3e-39 * double(1e20f));
    CHECK(on_host(scale(x, 0))[0] == 0);
    auto small = full<row>(ctx, {3}, 1e-10).requires_grad();
    backward(sum(small / 1e-40 / 1e10));
    near(on_host(small.grad())[0], 1e30);

    const auto slope = [&](auto&& f, double at) {
      auto one = full<row>(ctx, {3}, at).requires_grad();
      backward(sum(scale(f(one), 1e15)));
      return on_host(one.grad())[0];
    };
    near(slope([](auto& v) { return reciprocal(v); }, 4e19), -1e15 / (double(4e19f) * double(4e19f)));
    near(slope([](auto& v) { return rsqrt(v); }, 1e26), -0.5e15 / (std::sqrt(double(1e26f)) * double(1e26f)));
    for (const double large : {12.0, 31.0, 1e10, 1e20, 3e38}) {
      CHECK(slope([](auto& v) { return gelu(v); }, large) == 1e15f);
      CHECK(slope([](auto& v) { return gelu(v); }, -large) == 0);
      CHECK(slope([](auto& v) { return gelu_exact(v); }, large) == 1e15f);
    }
  });
}

TEST_CASE("rms_norm's gradients of numbers whose products with dy fp32 can't hold") {
  on_every_isa([](context& ctx) {
    for (const auto& [size, dy] : {std::pair{1e15, 1e25}, std::pair{1e-18, 1e-25}}) {
      auto x = full<row>(ctx, {3}, size).requires_grad(), w = full<row>(ctx, {3}, 1).requires_grad();
      backward(sum(scale(rms_norm(x, w, 0), dy)));
      for (const float number : on_host(w.grad())) CHECK(std::abs(number / dy - 1) < 1e-6);
      for (const float number : on_host(x.grad())) CHECK(std::abs(number) <= 1e-6 * (dy / size));
    }
  });
}

TEST_CASE("a divisor below all normal numbers") {
  on_every_isa([](context& ctx) {
    using numbers = tensor<double, dims<hidden>>;
    const auto quotient = [&](double x, double c) {
      auto t = full<numbers>(ctx, {3}, x).requires_grad();
      const auto y = t / c;
      backward(sum(y * 0x1p-100));
      return std::pair{on_host(y)[0], on_host(t.grad())[0]};
    };
    CHECK(std::abs(quotient(3e-320, 1e-320).first - 3e-320 / 1e-320) < 1e-15);
    CHECK(std::abs(quotient(1e-300, 1e-310).first / (1e-300 / 1e-310) - 1) < 1e-15);
    CHECK(quotient(0, 1e-320).first == 0);
    CHECK(std::abs(quotient(0, 0x1p-1070).second / 0x1p970 - 1) < 1e-15);
  });
}

TEST_CASE("a key that is not a number is seen in the gradients of what saw it") {
  using one_head = tensor<float, dims<batch, seq, heads, head_dim>>;
  on_every_isa([](context& ctx) {
    const float nan = std::nanf("");
    const float numbers[] = {1, 2, 3, 4, nan, 6};
    auto q = normal<one_head>(ctx, "q", {1, 3, 1, 2}).requires_grad(), v = normal<one_head>(ctx, "v", {1, 3, 1, 2});
    auto k = from_global<one_head>(ctx, {1, 3, 1, 2}, numbers).requires_grad();
    backward(sum(attention(q, k, v, {.causal = true})));
    const auto dq = on_host(q.grad()), dk = on_host(k.grad());
    for (std::size_t i = 4; i < 6; ++i) CHECK(dq[i] != dq[i]);
    for (const float g : dk) CHECK(g != g);
  });
}

TEST_CASE("relu lets the gradient of what is not a number through, as PyTorch does, and none where it is 0") {
  on_every_isa([](context& ctx) {
    const double numbers[] = {-1, 0, std::nan(""), 2, -0.0};
    auto x = from_global<row>(ctx, {5}, std::vector<float>(numbers, numbers + 5)).requires_grad();
    backward(sum(relu(x)));
    CHECK(on_host(x.grad()) == std::vector<float>{0, 0, 1, 1, 0});
  });
}

TEST_CASE("attention of a hundred thousand equal keys and queries") {
  on_every_isa([](context& ctx) {
    using one_head = tensor<float, dims<batch, seq, heads, head_dim>>;
    constexpr std::int64_t n = 100000;
    const auto leaf = [&](std::int64_t length, double number) {
      return full<one_head>(ctx, {1, length, 1, 8}, number).requires_grad();
    };
    auto q = leaf(1, 0), k = leaf(n, 0.5), v = leaf(n, 0.1);
    for (const float y : on_host(attention(q, k, v, {.causal = false}))) CHECK(std::abs(y / double(0.1f) - 1) < 2e-5);
    auto queries = leaf(n, 0.5), key = leaf(2, 0.5), number = leaf(2, 0.1);
    backward(sum(attention(queries, key, number, {.causal = false}) * 0.1f));
    for (const float g : on_host(number.grad())) CHECK(std::abs(g / (double(0.1f) * n / 2) - 1) < 2e-5);
  });
}

TEST_CASE("norms, softmax and losses of very long rows") {
  on_every_isa([](context& ctx) {
    constexpr std::int64_t n = 300007;
    const auto x = full<tall>(ctx, {2, n}, 0.1);
    const auto w = full<row>(ctx, {n}, 1);
    for (const float y : on_host(rms_norm(x, w, 1e-20))) REQUIRE(std::abs(y - 1) < 6e-7);
    for (const float p : on_host(softmax<hidden>(x))) REQUIRE(std::abs(p * double(n) - 1) < 6e-7);
    const auto targets = zeros<tensor<std::int32_t, dims<batch>>>(ctx, {2});
    CHECK(std::abs(item(cross_entropy(x, targets).sum) / (2 * std::log(double(n))) - 1) < 2e-7);
    const auto ramp = generate<tall>(ctx, {2, n}, [&](std::int64_t i) { return double(i % n < n / 2 ? -3 : 3); });
    for (const float y : on_host(layer_norm(ramp, w, zeros<row>(ctx, {n}), 1e-20)))
      REQUIRE(std::abs(std::abs(y) - 1) < 1e-5);
  });
}

TEST_CASE("AdamW takes gradients whose squares fp32 can't hold") {
  on_every_isa([](context& ctx) {
    for (const double size : {1e-3, 1.0, 1e18, 1.9e19, 6e19}) {
      auto w = full<row>(ctx, {3}, 1).requires_grad();
      backward(sum(scale(w, size)));
      adamw_state state;
      adamw_update(w, w.grad(), state, {.lr = 0.25, .weight_decay = 0});
      CHECK(std::abs(w.local_share()[0] - 0.75) < 1e-5);
    }
  });
}
