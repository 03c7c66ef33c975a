// An update uses its weight's gradient up: a loop without zero_grad doesn't add the steps' gradients up.
#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;
using row = tensor<double, dims<hidden>>;

double first(const row& x) { return x.local_share()[0]; }

}  // namespace

TEST_CASE("after an update the next backward begins a new gradient; without one they add up") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    auto w = full<row>(ctx, {2}, 1).requires_grad();
    optimizer_state state;
    backward(sum(scale(w, 3)));
    backward(sum(scale(w, 4)));
    CHECK(first(w.grad()) == 7);
    optimizer_update(w, w.grad(), state, sgd{.lr = 0.5});
    CHECK(first(w) == 1 - 0.5 * 7);
    CHECK(!w.has_grad());
    backward(sum(scale(w, 5)));
    CHECK(first(w.grad()) == 5);
    const auto converted = w.grad() * 2;
    optimizer_update(w, converted, state, sgd{.lr = 0.5});  // of another tensor, made of it
    backward(sum(scale(w, 6)));
    CHECK(first(w.grad()) == 6);
  });
}

TEST_CASE("a gradient that was used up isn't used again, and says so where it is read") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    auto w = full<row>(ctx, {2}, 1).requires_grad();
    optimizer_state state;
    backward(sum(square(w)));
    const auto g = w.grad();
    optimizer_update(w, g, state, sgd{.lr = 0.5});
    CHECK_THROWS_WITH_AS(optimizer_update(w, g, state, sgd{.lr = 0.5}), doctest::Contains("was used up by an update"),
                         failure);
    CHECK_THROWS_WITH_AS(w.grad(), doctest::Contains("since its last update"), failure);
    CHECK(first(g) == 2);  // what was read stays
    CHECK(first(w) == 0);
    w.zero_grad();
    CHECK_THROWS_WITH_AS(w.grad(), doctest::Contains("no backward(loss) of what was computed from it"), failure);
  });
}

// As WGAN clips its weights.
TEST_CASE("a weight that is written to between two updates goes on from there, master weights too") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    const auto check = [&]<class T>(T) {
      using X = tensor<T, dims<hidden>>;
      auto w = full<X>(ctx, {2}, 1).requires_grad();
      optimizer_state state;
      const auto step = [&] {
        backward(sum(scale(w, 2)));
        optimizer_update(w, w.grad(), state, sgd{.lr = 0.25, .momentum = 0});
        return static_cast<double>(w.local_share()[0]);
      };
      CHECK(step() == 0.5);
      w.write_local_share([](auto all) { all[0] = all[1] = T(0.25f); });
      CHECK(step() == -0.25);
      CHECK(step() == -0.75);
    };
    check(double()), check(float()), check(bf16());
  });
}

TEST_CASE("a loop as the quickstart writes it, beside one that empties each gradient") {
  const auto last = [](bool zero) {
    double loss = 0;
    launch<strategy<mesh<dp>>>({.dp = 2}, [&](context& ctx) {
      const auto x = normal<tensor<double, dims<batch, hidden>, shard<batch, dp>>>(ctx, "x", {8, 4});
      auto w = normal<tensor<double, dims<ffn, hidden>, replicate<dp>>>(ctx, "w", {3, 4}).requires_grad();
      adamw_state state;
      for (int step = 0; step < 30; ++step) {
        const auto l = mean(square(contract<hidden>(x, w)));
        backward(l);
        adamw_update(w, all_reduce<dp>(w.grad()), state, {.lr = 1e-2});
        if (zero) w.zero_grad();
        const no_grad off(ctx);
        const double now = item(all_reduce<dp>(l));
        if (ctx.is_first()) loss = now;
      }
    });
    return loss;
  };
  CHECK(last(false) == last(true));
}

TEST_CASE("a gradient of before the last backward isn't an update's") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    auto w = full<row>(ctx, {2}, 1).requires_grad();
    optimizer_state state;
    const auto of_before = doctest::Contains("the gradient is of before the last backward(loss)");
    const sgd rule{.lr = 1, .momentum = 0};
    backward(sum(scale(w, 3)));
    const auto kept = w.grad();
    optimizer_update(w, kept, state, rule);
    backward(sum(scale(w, 4)));
    CHECK_THROWS_WITH_AS(optimizer_update(w, kept, state, rule), of_before, failure);
    const auto one = w.grad();
    backward(sum(scale(w, 5)));
    CHECK_THROWS_WITH_AS(optimizer_update(w, one, state, rule), of_before, failure);
    CHECK(first(one) == 4);
    CHECK(first(w) == 1 - 3);
    optimizer_update(w, w.grad(), state, rule);
    CHECK(first(w) == 1 - 3 - 9);
    backward(sum(scale(w, 6)));
    optimizer_update(w, detach(one), state, rule);  // is meant
    CHECK(first(w) == 1 - 3 - 9 - 4);
    backward(sum(scale(w, 7)));
    const auto of_one_loss = w.grad();
    w.zero_grad();
    backward(sum(scale(w, 8)));
    optimizer_update(w, of_one_loss, state, rule);  // nothing was added to it
    CHECK(first(w) == 1 - 3 - 9 - 4 - 7);
  });
}

TEST_CASE("what is written to one gradient is in no other") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    auto a = full<row>(ctx, {2}, 1).requires_grad(), b = full<row>(ctx, {2}, 1).requires_grad();
    optimizer_state state;
    backward(sum(scale(a + b, 3)));
    auto g = a.grad();
    g.write_local_share([](auto all) { all[0] = 100; });  // clipped by hand, say
    CHECK(first(g) == 100);
    CHECK(first(a.grad()) == 3);
    CHECK(first(b.grad()) == 3);
    optimizer_update(a, g, state, sgd{.lr = 1, .momentum = 0});
    CHECK(first(a) == 1 - 100);
  });
}
