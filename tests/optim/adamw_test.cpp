// AdamW over single tensors: its numbers, whose state is whose, and the global norm that gradients are clipped by.
#include <cmath>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

using namespace weft;

namespace {

double number(std::int64_t i) { return double(i * 7 % 5) - 1.75; }

// Step t of one weight, in the words of the paper.
struct plain_adamw {
  double m = 0, v = 0;
  double operator()(double w, double g, int t, const adamw& a) {
    m = a.beta1 * m + (1 - a.beta1) * g;
    v = a.beta2 * v + (1 - a.beta2) * g * g;
    const double first = m / (1 - std::pow(a.beta1, t)), second = v / (1 - std::pow(a.beta2, t));
    return w - a.lr * (first / (std::sqrt(second) + a.eps) + a.weight_decay * w);
  }
};

template <class T>
using row = tensor<T, dims<hidden>>;

}  // namespace

TEST_CASE("three steps are those of the paper; a 16-bit weight is rounded from master weights") {
  launch<strategy<mesh<>, single_rank>>({}, [](context& ctx) {
    const adamw config{.lr = 1e-3, .weight_decay = 0.1};
    const auto check = [&]<class T>(T, double tolerance) {
      auto w = generate<row<T>>(ctx, {6}, number);
      std::vector<plain_adamw> plain(6);
      std::vector<double> wanted;
      for (const T x : on_host(w)) wanted.push_back(double(x));
      adamw_state state;
      for (int t = 1; t <= 3; ++t) {
        const auto g = generate<row<T>>(ctx, {6}, [&](std::int64_t i) { return number(i + t); });
        const auto slopes = on_host(g);
        adamw_update(w, g, state, config, 0.5);
        for (std::size_t i = 0; i < 6; ++i) {
          wanted[i] = plain[i](wanted[i], 0.5 * double(slopes[i]), t, config);
          const double now = double(on_host(w)[i]);
          require(std::abs(now - wanted[i]) <= tolerance * std::abs(wanted[i]), "step ", t, ": weight ", i, " is ", now,
                  ", not ", wanted[i]);
        }
      }
      require(state.first.type == dtype_of<accumulate_t<T>> && state.second.type == state.first.type,
              "the moments are rounded to 16 bits");
    };
    check(double{}, 1e-14);
    check(float{}, 1e-6);
    check(bf16{}, 1.0 / 256);  // half of its last place; steps of 1e-3 would be lost without master weights
    check(fp16{}, 1.0 / 2048);
  });
}

TEST_CASE("numbers without a meaning give no step") {
  const auto refuses = [](const adamw& a, const char* part) {
    CHECK_THROWS_WITH_AS(a.at(1, 1e-3), doctest::Contains(part), failure);
  };
  refuses({.beta1 = 1}, "AdamW's beta1 is 1");
  refuses({.beta2 = 1.5}, "AdamW's beta2 is 1.5");
  refuses({.eps = -1e-8}, "AdamW's eps is -1e-08");
  refuses({.weight_decay = -1}, "AdamW's weight_decay is -1");
}

TEST_CASE("small steps add up in a bf16 weight") {
  launch<strategy<mesh<>, single_rank>>({}, [](context& ctx) {
    auto w = ones<row<bf16>>(ctx, {1});
    const auto g = ones<row<bf16>>(ctx, {1});
    adamw_state state;
    for (int t = 0; t < 100; ++t) adamw_update(w, g, state, {.lr = 1e-3, .weight_decay = 0});  // bf16(1 - 1e-3) is 1
    require(std::abs(double(item(sum(w))) - 0.9) < 0.004, "the weight is ", double(item(sum(w))), ", not 0.9");
  });
}

TEST_CASE("a state belongs to one weight, a gradient to its weight") {
  launch<strategy<mesh<>, single_rank>>({}, [](context& ctx) {
    auto w = ones<row<float>>(ctx, {4}), same_size = ones<row<float>>(ctx, {4}), longer = ones<row<float>>(ctx, {8});
    const auto g = ones<row<float>>(ctx, {4}), g8 = ones<row<float>>(ctx, {8});
    adamw_state state;
    adamw_update(w, g, state, {});
    const auto others = doctest::Contains("this optimizer_state belongs to another weight");
    CHECK_THROWS_WITH_AS(adamw_update(longer, g8, state, {}), others, failure);
    CHECK_THROWS_WITH_AS(adamw_update(same_size, g, state, {}), others, failure);
    CHECK_THROWS_WITH_AS(adamw_update(w, g8, state, {}), doctest::Contains("it is the gradient of another tensor"),
                         failure);
    CHECK_THROWS_WITH_AS(adamw_update(w, g, state, {}, std::nan("")), doctest::Contains("the factor has to be finite"),
                         failure);
    CHECK(state.steps == 1);
    auto moved = std::move(w);
    adamw_update(moved, g, state, {});  // the same weight
    CHECK(state.steps == 2);
    row<float> never;
    adamw_state fresh;
    CHECK_THROWS_WITH_AS(adamw_update(never, g, fresh, {}), doctest::Contains("were never made"), failure);
  });
}

TEST_CASE("two states in turns, and another weight's gradient, are refused") {
  launch<strategy<mesh<>, single_rank>>({}, [](context& ctx) {
    const auto leaf = [&] { return ones<row<float>>(ctx, {4}).requires_grad(); };
    auto w = leaf(), v = leaf();
    const auto of = [&](const auto& x) { return backward(sum(w * v)), x.grad(); };
    adamw_state first, second;
    adamw_update(w, of(w), first, {});
    adamw_update(w, of(w), second, {});  // a new one, as for another phase
    adamw_update(w, of(w), second, {});
    CHECK_THROWS_WITH_AS(adamw_update(w, of(w), first, {}),
                         doctest::Contains("another optimizer_state has updated this weight since this one did"),
                         failure);
    CHECK(first.steps == 1);
    adamw_state of_v;
    const auto others = doctest::Contains("it is the gradient of another tensor");
    CHECK_THROWS_WITH_AS(adamw_update(v, w.grad(), of_v, {}), others, failure);
    CHECK(of_v.steps == 0);
    adamw_update(v, of(v), of_v, {});
    adamw_update(v, of(v) * 0.5, of_v, {});
    adamw_update(v, detach(w.grad()), of_v, {});  // meant so
    CHECK(of_v.steps == 3);
  });
}

TEST_CASE("a gradient that the norm would count twice is refused") {
  launch<strategy<mesh<tp>>>({.tp = 2}, [](context& ctx) {
    auto w = ones<row<float>>(ctx, {4}).requires_grad(), v = ones<row<float>>(ctx, {4}).requires_grad();
    backward(sum(w + v));  // two gradients in one memory
    CHECK(std::abs(gradient_norm(w.grad(), v.grad()) - std::sqrt(8)) < 1e-12);
    const auto g = w.grad();
    const auto twice = doctest::Contains("the norm would count gradient 2 twice: it is gradient 0 again");
    CHECK_THROWS_WITH_AS(gradient_norm(g, v.grad(), g), twice, failure);
    CHECK_THROWS_WITH_AS(gradient_norm(w.grad(), v.grad(), w.grad()), twice, failure);
    const auto sum = w.grad() + v.grad();
    CHECK_THROWS_WITH_AS(gradient_norm(sum, g, sum), twice, failure);
  });
}

TEST_CASE("a state of an earlier launch is refused, also where its weight's memory is the new one's") {
  adamw_state state;
  const auto memory_of_a_launch = [&](bool earlier) {
    launch<strategy<mesh<>, single_rank>>({}, [&](context& ctx) {
      auto w = ones<row<float>>(ctx, {4});
      const auto g = ones<row<float>>(ctx, {4});
      if (earlier) return adamw_update(w, g, state, {});
      state.weight = untyped(w).held();  // as where the system gives the same addresses again
      CHECK_THROWS_WITH_AS(adamw_update(w, g, state, {}), doctest::Contains("a weight that is made anew a new one"),
                           failure);
      CHECK(on_host(w)[0] == 1);
      state = {};
      adamw_update(w, g, state, {});
      CHECK(on_host(w)[0] < 1);
    });
  };
  memory_of_a_launch(true);
  memory_of_a_launch(false);
}

TEST_CASE("the gradient norm is the whole gradients', however they are placed") {
  double wanted = 0;
  for (std::int64_t i = 0; i < 5 * 7; ++i) wanted += number(i) * number(i);
  for (std::int64_t i = 0; i < 3; ++i) wanted += 4 * number(i) * number(i);
  wanted = std::sqrt(wanted);
  for (const degrees& ranks : {degrees{}, degrees{.dp = 2}, degrees{.tp = 3}, degrees{.dp = 2, .tp = 4}})
    launch<strategy<mesh<dp, tp>>>(ranks, [&](context& ctx) {
      const auto check = [&]<class X>(std::type_identity<X>) {
        auto g = generate<X>(ctx, {5, 7}, number);
        const auto held = detail::valid_part(g);
        g.write_local_share([&](auto all) {
          for (std::int64_t i = 0; i < g.local_elements(); ++i)  // padding is nobody's
            if (i % untyped(g).sizes()[1] >= held[1] || i / untyped(g).sizes()[1] >= held[0])
              all[std::size_t(i)] = std::nan("");
        });
        const auto bias = generate<tensor<float, dims<hidden>>>(ctx, {3}, [](std::int64_t i) { return 2 * number(i); });
        const double norm = gradient_norm(g, bias);
        require(std::abs(norm - wanted) < 1e-5 * wanted, "the norm is ", norm, ", not ", wanted);
      };
      using d = dims<ffn, hidden>;
      check(std::type_identity<tensor<double, d>>{});
      check(std::type_identity<tensor<float, d, replicate<tp>>>{});
      check(std::type_identity<tensor<double, d, shard<ffn, tp>>>{});
      check(std::type_identity<tensor<double, d, shard<hidden, dp>, replicate<tp>>>{});
      check(std::type_identity<tensor<double, d, shard<ffn, dp>, shard<hidden, tp>>>{});
      check(std::type_identity<tensor<double, d, shard<hidden, dp, tp>>>{});
    });
  CHECK(clip_factor(4, 1) == 0.25);
  CHECK(clip_factor(0.5, 1) == 1);
  CHECK(clip_factor(4, 0) == 1);
  for (const double norm : {-3.0, double(NAN), double(INFINITY)}) CHECK(std::isnan(clip_factor(norm, 1)));
  for (const double clip : {-1.0, double(NAN), double(INFINITY)})
    CHECK_THROWS_WITH_AS(clip_factor(2, clip), doctest::Contains("clip_norm is"), failure);
}
