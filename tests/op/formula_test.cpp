// Operators made of formulas: their values, types, placements, what they keep, and what they refuse when they run.
// (That their gradients are right in every placement is tests/laws/formula_gradients_test.cpp.)
#include <cmath>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <weft/autograd/backward.hpp>
#include <weft/autograd/checkpoint.hpp>
#include <weft/backend/cpu.hpp>
#include <weft/op/create.hpp>
#include <weft/op/formula.hpp>
#include <weft/op/reduce.hpp>
#include <weft/op/rowwise.hpp>
#include <weft/parallel/launch.hpp>

namespace {
using namespace weft;
using weft::mesh;

struct huber {
  static constexpr std::string_view name = "huber";
  double width;
  template <class T>
  T forward(T x) const {
    const T w = static_cast<T>(width), size = std::abs(x);
    return size <= w ? T(0.5) * x * x : w * (size - T(0.5) * w);
  }
  template <class T>
  T vjp(T dy, T x, T) const {
    const T w = static_cast<T>(width);
    return dy * (x > w ? w : x < -w ? -w : x);
  }
};
struct blend {  // weight * a + (1 - weight) * b
  static constexpr std::string_view name = "blend";
  static constexpr double flops = 3;
  template <class T>
  T forward(T weight, T a, T b) const {
    return weight * a + (1 - weight) * b;
  }
  template <class T>
  std::array<T, 3> vjp(T dy, T weight, T a, T b) const {
    return {dy * (a - b), dy * weight, dy * (1 - weight)};
  }
};
struct above {
  static constexpr std::string_view name = "above";
  template <class T>
  bool forward(T a, T b) const {
    return a > b;
  }
};
struct twice {
  static constexpr std::string_view name = "twice";
  static constexpr linearity linear = linearity::joint;
  template <class T>
  T forward(T x) const {
    return 2 * x;
  }
  template <class T>
  T vjp(T dy) const {
    return 2 * dy;
  }
};
struct shifted {  // says what isn't so
  static constexpr std::string_view name = "shifted";
  static constexpr linearity linear = linearity::joint;
  double forward(double x) const { return x + 1; }
  double vjp(double dy) const { return dy; }
};
struct over_root {  // linear in its first operand, for positive second ones
  static constexpr std::string_view name = "over_root";
  static constexpr linearity linear = linearity::first;
  static constexpr bool no_gradient = true;
  double forward(double a, double b) const { return a / std::sqrt(b); }
};
struct positive_part {  // linear for positive numbers alone
  static constexpr std::string_view name = "positive_part";
  static constexpr linearity linear = linearity::joint;
  static constexpr bool no_gradient = true;
  double forward(double a) const { return a > 0 ? a : 0; }
};
struct clipped {  // linear up to 100
  static constexpr std::string_view name = "clipped";
  static constexpr linearity linear = linearity::joint;
  static constexpr bool no_gradient = true;
  double forward(double a) const { return a > 100 ? 100 : a; }
};
struct hardly_shifted {
  static constexpr std::string_view name = "hardly_shifted";
  static constexpr linearity linear = linearity::joint;
  static constexpr bool no_gradient = true;
  double forward(double a) const { return a + 1e-8; }
};
struct refuses {
  static constexpr std::string_view name = "refuses";
  static constexpr bool no_gradient = false;  // it has one: vjp
  double forward(double x) const {
    if (x > 2) throw 42;
    return x;
  }
  double vjp(double dy) const { return dy; }
};
struct first_alone {  // leaves the others as they are
  static constexpr std::string_view name = "first_alone";
  template <class T>
  void forward(std::span<const T> x, std::span<T> y) const {
    y[0] = x[0];
  }
  template <class T>
  void vjp(std::span<const T> dy, std::span<const T>, std::span<const T>, std::span<T> dx) const {
    dx[0] = dy[0];
  }
};
struct masked {
  static constexpr std::string_view name = "masked";
  static constexpr linearity linear = linearity::joint;
  template <class T>
  T forward(std::uint8_t keep, T x) const {
    return keep ? x : T(0);
  }
  template <class T>
  std::array<T, 2> vjp(T dy, std::uint8_t keep, T) const {
    return {0, keep ? dy : T(0)};
  }
};

template <class... Es>
using real = tensor<double, dims<Es...>>;

void alone(const std::function<void(context&)>& f) { launch<strategy<mesh<dp>>>({}, f); }

TEST_CASE("values, broadcast by name, and gradients summed over what an operand lacks") {
  alone([](context& ctx) {
    auto w = generate<real<hidden>>(ctx, {3}, [](auto i) { return 0.25 * double(i + 1); }).requires_grad();
    auto a = generate<real<hidden, batch>>(ctx, {3, 2}, [](auto i) { return double(i); }).requires_grad();
    auto b = full<real<>>(ctx, {}, 10).requires_grad();
    const auto y = elementwise(blend{}, w, a, b);
    static_assert(std::same_as<dims_of<decltype(y)>, dims<hidden, batch>>);
    for (int h = 0; h < 3; ++h)
      for (int n = 0; n < 2; ++n) {
        const double at = 0.25 * (h + 1);
        CHECK(untyped(y).held().as<double>()[2 * h + n] == at * (2 * h + n) + (1 - at) * 10);
      }
    backward(sum(y));
    CHECK(untyped(w.grad()).held().as<double>()[1] == (2 - 10) + (3 - 10));
    CHECK(untyped(a.grad()).held().as<double>()[5] == 0.75);
    CHECK(*untyped(b.grad()).held().as<double>() == 2 * (0.75 + 0.5 + 0.25));
  });
}

TEST_CASE("16-bit numbers are computed in float and rounded once; main gradients stay wide") {
  alone([](context& ctx) {
    auto x = full<tensor<bf16, dims<hidden>>>(ctx, {4}, 1.0078125).requires_grad();
    detail::keep_gradient_in<cpu_backend, float, bf16>(*untyped(x).slot);
    const auto y = elementwise(huber{8}, x);
    static_assert(std::same_as<decltype(y)::element_type, bf16>);
    CHECK(static_cast<float>(untyped(y).held().as<bf16>()[3]) ==
          static_cast<float>(bf16(0.5f * 1.0078125f * 1.0078125f)));
    backward(sum(y));
    CHECK(untyped(x).slot->gradient.type == dtype::f32);
    CHECK(untyped(x).slot->gradient.as<float>()[2] == 1.0078125f);
  });
}

TEST_CASE("a formula that gives back bool makes a mask without a gradient") {
  alone([](context& ctx) {
    auto a = generate<real<hidden>>(ctx, {4}, [](auto i) { return double(i); }).requires_grad();
    const auto mask = elementwise(above{}, a, full<real<>>(ctx, {}, 1.5));
    static_assert(std::same_as<decltype(mask)::element_type, std::uint8_t>);
    CHECK(!untyped(mask).slot);
    const std::uint8_t expected[] = {0, 0, 1, 1};
    for (int i = 0; i < 4; ++i) CHECK(untyped(mask).held().as<std::uint8_t>()[i] == expected[i]);
    backward(sum(elementwise(masked{}, mask, a)));
    for (int i = 0; i < 4; ++i) CHECK(untyped(a.grad()).held().as<double>()[i] == expected[i]);
  });
}

using x2 = dims<batch, hidden>;

TEST_CASE("the output's placement, by the formula's linearity") {
  using cut = tensor<double, x2, shard<batch, dp>>;
  using sums = tensor<double, x2, partial<tp>>;
  using mask = tensor<std::uint8_t, dims<batch>, shard<batch, dp>>;
  const auto of = []<class F, class... Xs>() {
    return std::type_identity<layout_of<decltype(elementwise(std::declval<F>(), std::declval<Xs>()...))>>{};
  };
#define LAYOUT(...) typename decltype(of.template operator()<__VA_ARGS__>())::type
  static_assert(std::same_as<LAYOUT(huber, cut), place<shard<batch, dp>>>);
  static_assert(std::same_as<LAYOUT(blend, cut, tensor<double, dims<hidden>, replicate<tp>>, cut),
                             place<shard<batch, dp>, replicate<tp>>>);
  static_assert(std::same_as<LAYOUT(twice, sums), place<partial<tp>>>);
  static_assert(std::same_as<LAYOUT(masked, mask, tensor<double, x2, shard<batch, dp>, partial<tp>>),
                             place<shard<batch, dp>, partial<tp>>>);
#undef LAYOUT
}

TEST_CASE("what runs wrong gets a sentence: extents, contexts, a linearity that isn't one") {
  alone([](context& ctx) {
    const auto a = full<real<hidden>>(ctx, {3}, 1), b = full<real<hidden>>(ctx, {4}, 1);
    CHECK_THROWS_WITH_AS(elementwise(above{}, a, b), "dimension hidden has 3 elements on one side and 4 on the other",
                         failure);
    CHECK_THROWS_WITH_AS(elementwise(above{}, a, real<hidden>()),
                         "a tensor that was never made is used: make it by an operator or a creator, zeros<...>(ctx, "
                         "{...}), or a model's "
                         "weight by registry.add(...); std::move leaves such a tensor behind",
                         failure);
    const auto pending = convert<partial<dp>>(a);
    CHECK(untyped(elementwise(twice{}, pending)).held().as<double>()[0] == 2);
    CHECK_THROWS_WITH_AS(elementwise(shifted{}, pending),
                         doctest::Contains("the formula shifted says that it is linear"), failure);
  });
}

TEST_CASE("a number that a formula doesn't make of a negative one is no proof that it isn't linear") {
  alone([](context& ctx) {
    const auto a = full<real<hidden>>(ctx, {3}, 8), b = full<real<hidden>>(ctx, {3}, 4);
    CHECK(untyped(elementwise(over_root{}, convert<partial<dp>>(a), b)).held().as<double>()[0] == 4);
    CHECK_THROWS_WITH_AS(elementwise(positive_part{}, convert<partial<dp>>(a)),
                         doctest::Contains("the formula positive_part says that it is linear"), failure);
  });
}

TEST_CASE("a formula that is linear up to a bound, or but for a small constant, isn't") {
  alone([](context& ctx) {
    const auto pending = convert<partial<dp>>(full<real<hidden>>(ctx, {3}, 8));
    CHECK_THROWS_WITH_AS(elementwise(clipped{}, pending),
                         doctest::Contains("the formula clipped says that it is linear"), failure);
    CHECK_THROWS_WITH_AS(elementwise(hardly_shifted{}, pending),
                         doctest::Contains("the formula hardly_shifted says that it is linear"), failure);
  });
}

TEST_CASE("what a formula throws comes out of launch as it is, from whichever rank and thread") {
  for (const int from : {0, 1}) {
    int thrown = 0;
    try {
      launch<strategy<mesh<dp>>>({.dp = 2},
                                 [&](context& ctx) {
                                   auto x =
                                       full<real<hidden>>(ctx, {100000}, ctx.rank() == from ? 3 : 1).requires_grad();
                                   backward(sum(elementwise(refuses{}, x)));
                                   CHECK(untyped(x.grad()).held().as<double>()[7] == 1);
                                 },
                                 {.threads_per_rank = 2});
    } catch (int number) {
      thrown = number;
    }
    CHECK(thrown == 42);
  }
}

TEST_CASE("a row that a formula writes is 0 at first") {
  alone([](context& ctx) {
    using rows = tensor<double, dims<batch, hidden>>;
    const auto x = full<rows>(ctx, {4, 8}, 3);
    const auto strided = full<tensor<double, dims<hidden, batch>>>(ctx, {8, 4}, 3);
    { const auto left = x * 7.0; }  // its memory is used again
    const auto y = rowwise<hidden>(first_alone{}, x);
    for (int i = 0; i < 32; ++i) CHECK(untyped(y).held().as<double>()[i] == (i % 8 ? 0 : 3));
    const auto z = rowwise<hidden>(first_alone{}, strided);
    for (int i = 0; i < 32; ++i) CHECK(untyped(z).held().as<double>()[i] == (i / 4 ? 0 : 3));
  });
}

TEST_CASE("recomputation leaves a formula out, or runs it again, as the policy says; the gradient is the same") {
  alone([](context& ctx) {
    const auto run = [&]<class Policy>() {
      auto x = generate<real<hidden>>(ctx, {5}, [](auto i) { return double(i) - 2; }).requires_grad();
      const auto f = [](const real<hidden>& h) { return elementwise(huber{1}, elementwise(huber{0.5}, h)); };
      backward(sum(checkpoint<Policy>(f, x)));
      const auto g = x.grad();
      return std::vector<double>(untyped(g).held().template as<double>(), untyped(g).held().template as<double>() + 5);
    };
    CHECK(run.operator()<checkpoint_full>() == run.operator()<checkpoint_selective>());
    auto x = generate<real<hidden>>(ctx, {5}, [](auto i) { return double(i) - 2; }).requires_grad();
    backward(sum(elementwise(huber{1}, elementwise(huber{0.5}, x))));
    const auto g = x.grad();
    CHECK(run.operator()<checkpoint_full>() ==
          std::vector<double>(untyped(g).held().as<double>(), untyped(g).held().as<double>() + 5));
  });
}

}  // namespace
