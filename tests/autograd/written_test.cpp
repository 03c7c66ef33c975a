// Memory that is written between a forward and its backward: what the backward reads has a version, whoever wrote.
#include <stdexcept>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;
using rows = tensor<double, dims<batch, hidden>>;

template <class X>
void write(X& x, double number) {
  x.write_local_share([&](auto all) { all[0] = number; });
}
const auto written = doctest::Contains("was updated or written to before its backward");

}  // namespace

TEST_CASE("a backward that reads what was written over since is refused") {
  launch<strategy<mesh<tp>>>({.tp = 2}, [](context& ctx) {
    auto x = normal<rows>(ctx, "x", {2, 4}).requires_grad();
    auto w = normal<tensor<double, dims<ffn, hidden>, shard<ffn, tp>>>(ctx, "w", {6, 4});
    const auto of_leaf = sum(silu(x));
    write(x, 7);
    CHECK_THROWS_WITH_AS(backward(of_leaf), written, failure);
    const auto of_constant = sum(square(contract<hidden>(x, w)));
    write(w, 7);
    CHECK_THROWS_WITH_AS(backward(of_constant), written, failure);
    auto y = softmax<hidden>(x);
    const auto of_output = sum(square(y));
    write(y, 7);
    CHECK_THROWS_WITH_AS(backward(of_output), written, failure);
  });
}

TEST_CASE("what nothing reads again can be written, and what comes later reads the new numbers") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    auto x = full<rows>(ctx, {1, 2}, 3).requires_grad();
    auto y = 2 * x;
    const auto loss = sum(y);
    write(y, 7), write(x, 5);
    CHECK(item(sum(y)) == 13);
    backward(loss);
    CHECK(on_host(x.grad()) == std::vector<double>{2, 2});
    x.zero_grad();
    backward(sum(square(x)));
    CHECK(on_host(x.grad()) == std::vector<double>{10, 6});
    write(x, 1);
    CHECK(item(sum(x)) == 4);
  });
}

TEST_CASE("a checkpointed function whose argument, or a tensor that it captures, was written over") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    auto x = full<rows>(ctx, {1, 2}, 3).requires_grad();
    auto factor = full<rows>(ctx, {1, 2}, 2);
    const auto f = [factor](const rows& h) { return silu(h) * factor; };
    const auto of_argument = sum(checkpoint(f, x));
    write(x, 1);
    CHECK_THROWS_WITH_AS(backward(of_argument), written, failure);
    const auto of_captured = sum(checkpoint(f, x));
    write(factor, 1);
    CHECK_THROWS_WITH_AS(backward(of_captured), written, failure);
    const auto inner = [factor](const rows& h) {
      return checkpoint([factor](const rows& g) { return g * factor; }, h);
    };
    const auto of_inner = sum(square(checkpoint(inner, x)));
    write(factor, 3);
    CHECK_THROWS_WITH_AS(backward(of_inner), written, failure);
  });
}

TEST_CASE("writing that throws, or in which the tensor is given away, counts as written") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    auto x = full<rows>(ctx, {1, 2}, 3).requires_grad();
    const auto loss = sum(square(x));
    CHECK_THROWS_AS(x.write_local_share([](auto all) {
      all[0] = 9;
      throw std::runtime_error("midway");
    }),
                    std::runtime_error);
    CHECK_THROWS_WITH_AS(backward(loss), written, failure);
    x.write_local_share([&](auto all) {
      x = full<rows>(ctx, {1, 2}, 4);
      for (double& number : all) number = 7;  // memory that is still there
      CHECK(on_host(x) == std::vector<double>{4, 4});
    });
    CHECK(on_host(x) == std::vector<double>{4, 4});
  });
}

TEST_CASE("a checkpointed function that would do something twice is refused") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    auto x = full<rows>(ctx, {1, 2}, 3).requires_grad();
    auto other = full<rows>(ctx, {1, 2}, 3).requires_grad();
    backward(sum(other));
    optimizer_state state;
    const auto refuses = [&](const char* what, auto&& f) {
      const auto in_it = [&](const rows& h) {
        f();
        return square(h);
      };
      CHECK_THROWS_WITH_AS(checkpoint(in_it, x), doctest::Contains(what), failure);
      const auto nested = [&](const rows& h) { return checkpoint(in_it, h); };
      CHECK_THROWS_WITH_AS(checkpoint(nested, x), doctest::Contains("a checkpointed function runs twice"), failure);
    };
    refuses("x.write_local_share(f): a checkpointed function runs twice", [&] { write(other, 1); });
    refuses("x.zero_grad(): a checkpointed", [&] { other.zero_grad(); });
    refuses("backward(loss): a checkpointed", [&] { backward(sum(square(other))); });
    refuses("an optimizer's update: a checkpointed", [&] { optimizer_update(other, other.grad(), state, sgd{}); });
    backward(sum(checkpoint([](const rows& h) { return square(h); }, x)));
    CHECK(on_host(x.grad()) == std::vector<double>{6, 6});
  });
}

// With two ranks the output has memory of its own; with one it must not look otherwise.
TEST_CASE("what is written shows in no conversion, whether its axis has one rank or two") {
  for (const int ranks : {1, 2})
    launch<strategy<mesh<tp>>>({.tp = ranks}, [&](context& ctx) {
      auto constant = full<rows>(ctx, {2, 4}, 1);
      auto cut = split<hidden, tp>(constant);
      write(cut, 9);
      CHECK(item(sum(constant)) == 8);
      auto whole = all_gather<tp>(cut);
      write(whole, 4);
      CHECK(cut.local_share()[0] == 9);
      write(cut, 5);
      CHECK(whole.local_share()[0] == 4);
    });
  launch<strategy<mesh<tp>>>({}, [&](context& ctx) {
    auto constant = full<rows>(ctx, {2, 4}, 1);
    {
      const auto cut = split<hidden, tp>(constant);
      CHECK_THROWS_WITH_AS(write(constant, 7), doctest::Contains("write first, or to a tensor of its own"), failure);
      CHECK(cut.local_share()[0] == 1);
    }
    write(constant, 7);  // nobody else has the memory any more
    CHECK(constant.local_share()[0] == 7);
  });
}

TEST_CASE("a parameter is written by its store alone") {
  using S = strategy<mesh<dp>, zero3, fp64>;
  launch<S>({.dp = 2}, [](context& ctx) {
    parameter_registry registry;
    const int unit = registry.begin_unit("all");
    weight<S, dims<heads, head_dim>> w;
    registry.add(ctx, w, "w", {2, {2, 3}}, {0.5});
    parameter_store<cpu_backend, fp64> store(ctx, registry, config_of<zero3>());
    auto x = full<tensor<double, dims<>>>(ctx, {}, 1);
    CHECK_THROWS_WITH_AS(in_unit(
                             ctx, store, unit,
                             [&](const auto& t) {
                               w.write_local_share([](auto all) { all[0] = 1; });
                               return t;
                             },
                             x),
                         doctest::Contains("load_parameters"), failure);
  });
}

TEST_CASE("what is recorded or backpropagated while a tensor is written to is refused, or reads one set of numbers") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    auto x = full<rows>(ctx, {1, 2}, 3).requires_grad();
    const auto before = sum(square(x));
    x.write_local_share([&](auto all) {
      all[0] = all[1] = 9;
      CHECK_THROWS_WITH_AS(backward(before), written, failure);
    });
    x.zero_grad();
    x.write_local_share([&](auto all) {
      all[0] = 8;
      const auto within = sum(square(x));
      all[0] = 7;
      CHECK_THROWS_WITH_AS([&] { x.write_local_share([&](auto) { backward(within); }); }(), written, failure);
    });
    CHECK(on_host(x) == std::vector<double>{7, 9});
  });
}
