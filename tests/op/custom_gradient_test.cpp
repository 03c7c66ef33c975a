// Functions with a backward of their own, and kernels of a user's own: values, several outputs, what they keep, both
// parts of a backward, recomputation, and what they refuse when they run.
// (That gradients are right in every placement is tests/laws/custom_gradients_test.cpp.)
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <weft/autograd/backward.hpp>
#include <weft/autograd/checkpoint.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/create.hpp>
#include <weft/op/custom_gradient.hpp>
#include <weft/op/elementwise.hpp>
#include <weft/op/extremes.hpp>
#include <weft/op/local_map.hpp>
#include <weft/op/reduce.hpp>
#include <weft/op/scalar.hpp>
#include <weft/op/select.hpp>
#include <weft/op/to_host.hpp>
#include <weft/op/view.hpp>

#include "autograd/traced_ranks.hpp"
#include "said_by.hpp"

namespace {
using namespace weft;
using weft_test::said_by;
using row = tensor<double, dims<hidden>>;
using rows = tensor<double, dims<batch, hidden>>;
using numbers = std::vector<double>;

template <class F>
void alone(F&& f) {
  weft_test::traced_ranks({}, [&](context& ctx, auto) { f(ctx); });
}
template <class X>
numbers share(const X& x) {
  const auto s = x.local_share();
  return {s.begin(), s.end()};
}
row given(context& ctx, std::vector<double> v) {
  return from_global<row>(ctx, {static_cast<std::int64_t>(v.size())}, v);
}

int forwards = 0, backwards = 0;

struct gate {  // x * sigmoid(g)
  static constexpr std::string_view name = "gate";
  template <class X, class G>
  auto forward(const X& x, const G& g) const {
    ++forwards;
    const auto s = sigmoid(g);
    return std::pair(x * s, std::tuple(x, s));
  }
  template <class D, class X, class S>
  auto vjp(const D& dy, const X& x, const S& s) const {
    ++backwards;
    return std::tuple(dy * s, dy * x * s * (1.0 - s));
  }
};
struct reversed {  // its input; its gradient the other way, as many times
  static constexpr std::string_view name = "reversed";
  double times = 1;
  template <class X>
  auto forward(const X& x) const {
    return x;
  }
  template <class D>
  auto vjp(const D& dy) const {
    return dy * -times;
  }
};
struct split_sign {  // what is positive of x, what is negative, and where
  static constexpr std::string_view name = "split_sign";
  template <class X>
  auto forward(const X& x) const {
    ++forwards;
    const auto positive = x > 0.0;
    const X above = relu(x);
    return std::pair(std::tuple(above, x - above, positive), positive);
  }
  template <class D, class M>
  auto vjp(const D& above, const D& below, const M& positive) const {
    ++backwards;
    return where(positive, above, below);
  }
};
struct twins {  // its input, twice
  static constexpr std::string_view name = "twins";
  std::tuple<row, row> forward(const row& x) const { return {x, x}; }
  row vjp(const row& a, const row& b) const { return a + b; }
};
struct writes_gradient {  // in place
  static constexpr std::string_view name = "writes_gradient";
  row forward(const row& x) const { return x; }
  row vjp(const row& dy) const {
    row dx = dy;
    dx.write_local_share([](auto to) { to[0] = 100; });
    return dx;
  }
};
struct gradient_is_input {
  static constexpr std::string_view name = "gradient_is_input";
  std::pair<row, row> forward(const row& x) const { return {x * 1.0, x}; }
  row vjp(const row&, const row& x) const { return x; }
};
struct float_gradient {
  static constexpr std::string_view name = "float_gradient";
  template <class X>
  auto forward(const X& x) const {
    return x + x;
  }
  template <class D>
  auto vjp(const D& dy) const {
    return cast<float>(dy) * 8191.0;
  }
};
struct backward_within {
  static constexpr std::string_view name = "backward_within";
  row forward(const row& x) const { return backward(sum(x)), x; }
  row vjp(const row& dy) const { return dy; }
};
struct slopes {  // x, with a gradient that is given
  static constexpr std::string_view name = "slopes";
  std::pair<row, row> forward(const row& x, const row& slope) const { return {x * 1.0, slope}; }
  std::tuple<row, row> vjp(const row& dy, const row& slope) const { return {dy * slope, slope}; }
};
struct product {  // of two, of which it keeps both and its own output
  static constexpr std::string_view name = "product";
  template <class X>
  auto forward(const X& x, const X& y) const {
    const X z = x * y;
    return std::pair(z, std::tuple(x, y, z));
  }
  template <class D, class X>
  auto vjp(const D& dz, const X& x, const X& y, const X&) const {
    return std::tuple(dz * y, dz * x);
  }
};
struct narrower {
  static constexpr std::string_view name = "narrower";
  rows forward(const rows& x) const { return x; }
  rows vjp(const rows& dy) const { return slice<hidden>(dy, 0, 2); }
};
struct other_numbers {
  static constexpr std::string_view name = "other_numbers";
  double factor;
  rows forward(const rows& x) const { return x * factor; }
  rows vjp(const rows& dy) const { return dy * factor; }
};
struct nothing {
  static constexpr std::string_view name = "nothing";
  rows forward(const rows&) const { return {}; }
  rows vjp(const rows& dy) const { return dy; }
};
struct without_gradient : nothing {
  static constexpr std::string_view name = "without_gradient";
  rows forward(const rows& x) const { return x; }
  rows vjp(const rows&) const { return {}; }
};
}  // namespace

TEST_CASE("a function with a backward of its own gives what the operators in it give") {
  alone([](context& ctx) {
    const rows x = normal<rows>(ctx, "x", {3, 4}), g = normal<rows>(ctx, "g", {3, 4});
    rows x1 = detach(x * 1.0).requires_grad(), g1 = detach(g * 1.0).requires_grad();
    rows x2 = detach(x * 1.0).requires_grad(), g2 = detach(g * 1.0).requires_grad();
    const rows y1 = custom_gradient(gate{}, x1, g1), y2 = x2 * sigmoid(g2);
    CHECK(share(y1) == share(y2));
    CHECK(ctx.tape->size() == 3);  // one of them the function's
    backward(sum(square(y1)) + sum(square(y2)));
    for (std::size_t i = 0; i < 12; ++i) {
      CHECK(share(x1.grad())[i] == doctest::Approx(share(x2.grad())[i]));
      CHECK(share(g1.grad())[i] == doctest::Approx(share(g2.grad())[i]));
    }
  });
}

TEST_CASE("a function of the same tensor twice, and one whose input wants no gradient") {
  alone([](context& ctx) {
    const row x = given(ctx, {2, 3}).requires_grad(), c = given(ctx, {5, 7});
    backward(sum(custom_gradient(product{}, x, x) + custom_gradient(product{}, x, c)));
    CHECK(share(x.grad()) == numbers{9, 13});
    CHECK(!custom_gradient(product{}, c, c).has_grad());
    CHECK(untyped(custom_gradient(product{}, c, c)).slot.get() == nullptr);
    const no_grad off(ctx);
    CHECK(untyped(custom_gradient(product{}, x, x)).slot.get() == nullptr);
  });
}

TEST_CASE("its output may be its input, with another gradient and memory that can be written") {
  alone([](context& ctx) {
    const row x = given(ctx, {2, 3}).requires_grad();
    backward(sum(custom_gradient(reversed{0.5}, x)));
    CHECK(share(x.grad()) == numbers{-0.5, -0.5});
    row y = custom_gradient(reversed{}, x);
    y.write_local_share([](auto to) { to[0] = 9; });
    CHECK(share(y) == numbers{9, 3});
    CHECK(share(x) == numbers{2, 3});
  });
}

TEST_CASE("several outputs: the backward runs once, with zeros for those that nobody used, and not for none") {
  alone([](context& ctx) {
    const row x = given(ctx, {2, -3, 4}).requires_grad();
    {
      backwards = 0;
      const auto [above, below, positive] = custom_gradient(split_sign{}, x);
      CHECK(share(above) == numbers{2, 0, 4});
      CHECK(share(below) == numbers{0, -3, 0});
      static_assert(std::same_as<decltype(positive)::element_type, std::uint8_t>);
      backward(sum(above * 2.0 + below * 3.0));
      CHECK(backwards == 1);
      CHECK(share(x.grad()) == numbers{2, 3, 2});
    }
    {
      const auto [above, below, positive] = custom_gradient(split_sign{}, x);
      const row after = given(ctx, {1, 1, 1}).requires_grad();
      backward(sum(below * after));
      CHECK(backwards == 2);
      CHECK(share(x.grad()) == numbers{2, 4, 2});
      CHECK(share(after.grad()) == numbers{0, -3, 0});
    }
    const auto [above, below, positive] = custom_gradient(split_sign{}, x);
    backward(sum(x));
    CHECK(backwards == 2);
    CHECK(said_by([&, &a = above] { backward(sum(a)); }).find("no longer recorded") != std::string::npos);
  });
}

TEST_CASE("what nobody can backpropagate any more is forgotten") {
  alone([](context& ctx) {
    const row x = given(ctx, {2, -3, 4}).requires_grad();
    for (int i = 0; i < 500; ++i) custom_gradient(split_sign{}, custom_gradient(reversed{}, x));
    CHECK(ctx.tape->size() < 200);
  });
}

TEST_CASE("in a backward of two parts it runs once, and its weights get their gradients in the second") {
  for (const bool split : {false, true}) {
    CAPTURE(split);
    alone([&](context& ctx) {
      const row x = given(ctx, {2, 3}).requires_grad(), w = given(ctx, {5, 7}).requires_grad();
      untyped(w).slot->of_weights = true;
      const row v = given(ctx, {1, 1}).requires_grad();
      untyped(v).slot->of_weights = true;
      backwards = 0;
      const auto [above, below, positive] = custom_gradient(split_sign{}, custom_gradient(product{}, x, w));
      const auto y = custom_gradient(gate{}, above, below);
      const auto loss = sum(custom_gradient(product{}, v, custom_gradient(reversed{}, v)) + y);
      if (split) {
        detail::seed_loss(loss, 1);
        ctx.tape->backward_inputs(ctx);
        CHECK(x.has_grad());
        CHECK(!untyped(w).slot->has_gradient);
        CHECK(!untyped(v).slot->has_gradient);
        ctx.tape->backward_weights(ctx);
      } else {
        backward(loss);
      }
      CHECK(backwards == 2);
      CHECK(share(x.grad()) == numbers{2.5, 3.5});
      CHECK(share(w.grad()) == numbers{1, 1.5});
      CHECK(share(v.grad()) == numbers{0, 0});
    });
  }
}

TEST_CASE("in a function that runs again it gives the same, whatever is kept of it") {
  const auto run = [](auto policy, bool recompute) {
    numbers out;
    alone([&](context& ctx) {
      const rows x = normal<rows>(ctx, "x", {3, 4}).requires_grad();
      const rows w = normal<rows>(ctx, "w", {3, 4}).requires_grad();
      const auto f = [w](const rows& h) {
        const auto [above, below, positive] = custom_gradient(split_sign{}, custom_gradient(product{}, h, w));
        return custom_gradient(gate{}, exp(above), custom_gradient(reversed{2}, below)) + h;
      };
      using P = decltype(policy);
      const rows y = recompute ? checkpoint<P>(f, checkpoint<P>(f, x)) : f(f(x));
      forwards = 0;
      backward(sum(square(y)));
      CHECK(forwards == (recompute ? 4 : 0));
      for (const auto& v : {share(y), share(x.grad()), share(w.grad())}) out.insert(out.end(), v.begin(), v.end());
    });
    return out;
  };
  const numbers plain = run(checkpoint_full{}, false);
  CHECK(run(checkpoint_full{}, true) == plain);
  CHECK(run(checkpoint_selective{}, true) == plain);
}

TEST_CASE("what it is wrong to do to one is said") {
  alone([](context& ctx) {
    const rows x = normal<rows>(ctx, "x", {3, 4}).requires_grad();
    CHECK(said_by([&] { backward(sum(custom_gradient(narrower{}, x))); }) ==
          "narrower: gradient 0 of its vjp has 2 elements in dimension 1, of which its input has 4");
    const row r = given(ctx, {2, 3}).requires_grad();
    CHECK(said_by([&] { custom_gradient(backward_within{}, r); }).find("in forward or vjp of a custom_gradient") !=
          std::string::npos);
    CHECK(said_by([&] { custom_gradient(nothing{}, x); }).find("a tensor that was never made is used") == 0);
    CHECK(said_by([&] { backward(sum(custom_gradient(without_gradient{}, x))); }) ==
          "without_gradient: gradient 0 of its vjp is empty, and its input wants one (wants_gradient)");
    rows w = normal<rows>(ctx, "w", {3, 4});
    const auto y = custom_gradient(product{}, x, w);
    w.write_local_share([](auto to) { to[0] = 1; });
    CHECK(said_by([&] { backward(sum(y)); }).find("product: a tensor that it read or made was updated or written") ==
          0);
    double factor = 2;
    const auto again = checkpoint([&factor](const rows& h) { return custom_gradient(other_numbers{factor}, h); }, x);
    factor = 3;
    CHECK(said_by([&] { backward(sum(again)); }).find("with other numbers") != std::string::npos);
  });
}

TEST_CASE("memory that a tensor shares with what it was made of, or with its gradient, isn't written for both") {
  alone([](context& ctx) {
    row x = given(ctx, {2, 3}).requires_grad();
    const row y = custom_gradient(reversed{}, x);
    x.write_local_share([](auto to) { to[0] = 9; });
    CHECK(share(y) == numbers{2, 3});  // of a leaf: a copy
    const row made = x * 1.0;
    auto [a, b] = custom_gradient(twins{}, made);
    a.write_local_share([](auto to) { to[0] = 7; });
    CHECK(share(a) == numbers{7, 3});
    CHECK(share(b) == numbers{9, 3});
    CHECK(share(made) == numbers{9, 3});
    row z = made * 1.0;
    const row other = custom_gradient(reversed{}, z);
    CHECK(said_by([&] { z.write_local_share([](auto to) { to[0] = 1; }); }).find("a function that gave it back") !=
          std::string::npos);
    CHECK(share(other) == numbers{9, 3});
  });
  alone([](context& ctx) {
    row x = given(ctx, {2, 3}).requires_grad();
    const row w = given(ctx, {1, 1}).requires_grad();
    backward(sum(custom_gradient(writes_gradient{}, w) + w));
    CHECK(share(w.grad()) == numbers{101, 2});
    backward(sum(custom_gradient(gradient_is_input{}, x)));
    CHECK(share(x.grad()) == numbers{2, 3});
    x.write_local_share([](auto to) { to[0] = 9; });
    CHECK(share(x.grad()) == numbers{2, 3});
  });
}

TEST_CASE("in a function that runs again, what it only keeps has to stay as well") {
  alone([](context& ctx) {
    const row x = given(ctx, {2, 3}).requires_grad();
    row slope = given(ctx, {3, 4});
    const auto y = checkpoint([slope](const row& h) { return custom_gradient(slopes{}, h, slope); }, x);
    slope.write_local_share([](auto to) { to[0] = 100; });
    CHECK(said_by([&] { backward(sum(y)); }).find("was updated or written to before its backward") !=
          std::string::npos);
    // Its own last operator may be the function's last.
    backward(sum(checkpoint([](const row& h) { return custom_gradient(reversed{2}, exp(h)); }, x)));
    CHECK(share(x.grad())[0] == doctest::Approx(-2 * std::exp(2)));
  });
}

TEST_CASE("a kernel of one's own sees memory, extents and padding") {
  weft_test::traced_ranks({.dp = 2}, [](context& ctx, auto) {
    using in = tensor<float, dims<batch, hidden>, shard<batch, dp>>;
    using sums = tensor<double, dims<hidden>, partial<dp>>;
    using of_rows = tensor<std::int32_t, dims<batch>, shard<batch, dp>>;
    const in x = generate<in>(ctx, {5, 2}, [](std::int64_t i) { return double(i); });
    const auto [column, ones] = local_map<sums, of_rows>(
        "column_sums",
        [](auto sum, auto one, auto from) {
          CHECK(from.template extent<batch>() == 3);
          CHECK(from.size() == 6);
          CHECK(one.template valid_extent<batch>() == from.template valid_extent<batch>());
          const std::int64_t width = from.template extent<hidden>();
          for (auto& s : sum) s = 0;
          for (std::int64_t b = 0; b < from.template valid_extent<batch>(); ++b) {
            for (std::int64_t h = 0; h < width; ++h) sum[h] += double(from[b * width + h]);
            one[b] = 1;
          }
        },
        x);
    CHECK(on_host(all_reduce<dp>(column)) == numbers{20, 25});
    CHECK(ones.local_share()[1] == 1);
    using fixed = tensor<float, dims<batch, extent<ffn, 3>>, shard<batch, dp>>;
    const fixed y = local_map<fixed>(
        "threes", [](std::span<float> to, std::span<const float> from) { std::fill(to.begin(), to.end(), from[0]); },
        x);
    CHECK(y.local_extent<ffn>() == 3);
  });
}

TEST_CASE("what differs among a kernel's tensors is said; numbers are read and set in the type that sums have") {
  alone([](context& ctx) {
    const row x = given(ctx, {2, 3}), longer = given(ctx, {2, 3, 4});
    const auto nothing_done = [](auto, auto, auto) {};
    CHECK(said_by([&] { local_map<row>("both", nothing_done, x, longer); }) ==
          "both: dimension hidden has 2 elements in one of its tensors and 3 in another");
    using half = tensor<bf16, dims<hidden>>;
    const half h = from_global<half>(ctx, {2}, std::vector<bf16>{bf16(2.0f), bf16(3.0f)});
    const half twice = local_map<half>(
        "twice",
        [](auto to, auto from) {
          static_assert(std::same_as<decltype(from.number(0)), float>);
          for (std::int64_t i = 0; i < to.extent(hidden{}); ++i) to.set(i, 2 * from.number(i));
        },
        h);
    CHECK(on_host(cast<double>(twice)) == numbers{4, 6});
  });
}

TEST_CASE("the gradient of a bf16 tensor may be left in float, and reaches a main gradient unrounded") {
  using half = tensor<bf16, dims<hidden>>;
  alone([](context& ctx) {
    for (const bool main : {false, true}) {
      const half h = from_global<half>(ctx, {2}, std::vector<bf16>{bf16(2.0f), bf16(3.0f)}).requires_grad();
      if (main) detail::keep_gradient_in<cpu_backend, float, bf16>(*untyped(h).slot);
      backward(sum(custom_gradient(float_gradient{}, h)));
      const local_array& g = untyped(h).slot->gradient;
      if (main)
        CHECK(g.as<float>()[0] == 8191.0f);
      else
        CHECK(float(g.as<bf16>()[0]) == 8192.0f);
    }
  });
}

TEST_CASE("a kernel of one's own without a backward is refused where a gradient is wanted") {
  alone([](context& ctx) {
    const row x = given(ctx, {2, 3}).requires_grad();
    const auto twice = [](auto to, auto from) {
      for (std::int64_t i = 0; i < to.size(); ++i) to[i] = 2 * from[i];
    };
    CHECK(said_by([&] { local_map<row>("twice", twice, x); }).find("twice: local_map knows no backward") == 0);
    CHECK(share(local_map<row>("twice", twice, detach(x))) == numbers{4, 6});
    const no_grad off(ctx);
    const auto any = [&](const auto&... operands) {
      CHECK(sizeof...(operands) == 2);
      twice(operands...);
    };
    CHECK(share(local_map<row>("any", any, x)) == numbers{4, 6});
    CHECK(share(local_map<row>("twice", twice, x)) == numbers{4, 6});
  });
}
