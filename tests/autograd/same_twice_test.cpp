// What must not change between a forward and its backward: weights that the backward reads again, and what a function
// that runs twice does. Either change ends with a sentence; an update at the right time never does.
#include <array>
#include <cmath>
#include <cstring>
#include <memory>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;
using row = tensor<float, dims<hidden>>;
using matrix = tensor<float, dims<batch, hidden>>;

template <class F>
void alone(F&& f) {
  launch<strategy<mesh<dp>>>({}, [&](context& ctx) { f(ctx); });
}
template <class W>
void update(W& w, adamw_state& state) {
  w.requires_grad();
  adamw_update(w, detach(w), state, {.lr = 0.1});
}
// A function that does something else each time: f(h, 0), then f(h, 1), and so on.
template <class F>
auto changing(F f) {
  return [f, runs = std::make_shared<int>(0)](const row& h) { return f(h, (*runs)++); };
}
// Formulas with numbers of their own: one, and some with padding between them.
struct steeper {
  static constexpr std::string_view name = "steeper";
  double by;
  double forward(double x) const { return by * x; }
  double vjp(double dy) const { return by * dy; }
};
struct capped {
  static constexpr std::string_view name = "capped";
  bool lower;
  float at;
  double forward(double x) const { return lower && x < at ? at : x; }
  double vjp(double dy, double x) const { return lower && x < at ? 0 : dy; }
};
struct tempered {
  static constexpr std::string_view name = "tempered";
  double by;
  template <class T>
  T forward(std::span<const T> x) const {
    return x[0] * static_cast<T>(by);
  }
  template <class T>
  void vjp(T dy, std::span<const T>, T, std::span<T> dx) const {
    dx[0] = dy * static_cast<T>(by);
  }
};
// A formula of numbers, the rest of its memory being other bytes every time.
capped capped_among(int bytes, float at) {
  capped out;
  std::memset(static_cast<void*>(&out), bytes, sizeof out);
  out.lower = true, out.at = at;
  return out;
}

template <class F>
void refuses(F&& f, const char* part) {
  alone([&](context& ctx) {
    row x = normal<row>(ctx, "x", {6}).requires_grad();
    const auto loss = sum(square(checkpoint(changing(f), x)));
    CHECK_THROWS_WITH_AS(backward(loss), doctest::Contains(part), failure);
    CHECK(ctx.tape->size() == 0);
    backward(sum(square(x)));  // and goes on
    CHECK(x.has_grad());
  });
}
}  // namespace

TEST_CASE("a weight that is updated before the backward that reads it") {
  alone([](context& ctx) {
    row w = normal<row>(ctx, "w", {6}).requires_grad(), x = normal<row>(ctx, "x", {6}).requires_grad();
    adamw_state state;
    const auto stale =
        doctest::Contains("was updated or written to before its backward, which needs the numbers of before");
    const auto check = [&](const auto& loss) {
      update(w, state);
      CHECK_THROWS_WITH_AS(backward(loss), stale, failure);
      CHECK(ctx.tape->size() == 0);
    };
    check(sum(x * w));
    check(sum(square(w)));
    check(contract<hidden>(w, x));
    check(sum(rms_norm(x, w)));
    check(sum(x / w));
    check(sum(x * silu(w)));
    for (int step = 0; step < 3; ++step) {  // at the right time
      x.zero_grad(), w.zero_grad();
      backward(sum(square(x * w)));
      adamw_update(w, w.grad(), state, {.lr = 0.1});
    }
    const auto linear = sum(x + w);  // needs no numbers
    update(w, state);
    CHECK_NOTHROW(backward(linear));
  });
}

TEST_CASE("a weight that is updated before a checkpointed function runs again") {
  alone([](context& ctx) {
    row w = normal<row>(ctx, "w", {6}).requires_grad(), x = normal<row>(ctx, "x", {6}).requires_grad();
    adamw_state state;
    for (const bool of_input : {false, true})
      for (const bool linear : {false, true}) {
        const auto loss = sum(checkpoint([&](const row& h) { return linear ? h + w : h * w; }, of_input ? w : x));
        update(w, state);
        CHECK_THROWS_WITH_AS(backward(loss),
                             doctest::Contains("updated or written to before its backward, which runs the function"),
                             failure);
        backward(sum(checkpoint([&](const row& h) { return h * w; }, x)));
      }
  });
}

TEST_CASE("a parameter store's step before a backward") {
  const auto check = [](auto strategy_type) {
    using S = decltype(strategy_type);
    launch<S>({.dp = 2}, [](context& ctx) {
      using x_type = tensor<float, dims<batch, hidden>, shard<batch, dp>>;
      parameter_registry registry;
      weight<S, dims<hidden>> w;
      registry.begin_unit("only");
      registry.add(ctx, w, "gain", {1, {40}}, {0, 1});
      parameter_store<cpu_backend, fp32> store(ctx, registry, config_of<typename S::sharding>());
      const auto loss = [&] {
        const auto x = ones<x_type>(ctx, {2, 40});
        return sum(in_unit(
            ctx, store, 0, [&](const x_type& h) -> x_type { return square(h * square(w)); }, x));
      };
      const auto step = [&] {
        store.end_micro_batch();
        store.finish_gradients();
        store.step(adamw{}.at(1, 1e-3));
      };
      for (int i = 0; i < 2; ++i) {
        store.begin_step(1);
        backward(loss());
        step();
      }
      tape early;
      store.begin_step(1);
      const auto waiting = [&] {
        const recording on(ctx, &early);
        return loss();
      }();
      backward(loss());
      step();
      const recording on(ctx, &early);
      CHECK_THROWS_AS(backward(waiting), failure);
      CHECK(early.size() == 0);
    });
  };
  check(strategy<mesh<dp>, replicated>());
  check(strategy<mesh<dp>, zero1>());
  check(strategy<mesh<dp>, zero2>());
  check(strategy<mesh<dp>, zero3>());
}

TEST_CASE("a checkpointed function that does less the second time") {
  refuses([](const row& h, int run) { return run ? silu(h) : silu(silu(h)); },
          "ran 1 operators when its gradient was due");
}
TEST_CASE("a checkpointed function that does more the second time") {
  refuses([](const row& h, int run) { return run ? silu(silu(h)) : silu(h); }, "and nothing at first");
}
TEST_CASE("a checkpointed function that does something else the second time") {
  refuses([](const row& h, int run) { return run ? scale(h, 2) : silu(h); }, "it has to do the same both times");
}
TEST_CASE("a checkpointed function that draws another mask, scales by another number or slices elsewhere") {
  refuses([](const row& h, int run) { return dropout(h, 0.5, static_cast<std::uint64_t>(run)); }, "with other numbers");
  refuses([](const row& h, int run) { return scale(h, 1.5 + run); }, "with other numbers");
  refuses([](const row& h, int run) { return slice<hidden>(h, run, 2); }, "with other numbers");
  refuses([](const row& h, int run) { return exp(h + (2.0 + run)); }, "with other numbers");
  refuses([](const row& h, int run) { return run ? tanh(h) : exp(h); }, "ran tanh as operator 0");
  refuses([](const row& h, int run) { return run ? silu(h) : relu(h); }, "and relu at first");
  alone([](context& ctx) {
    matrix x = normal<matrix>(ctx, "x", {2, 3}).requires_grad();
    const row w = ones<row>(ctx, {3});
    int run = 0;
    const auto check = [&](auto f) {
      run = 0;
      const auto loss = sum(square(checkpoint(f, x)));
      CHECK_THROWS_WITH_AS(backward(loss), doctest::Contains("with other numbers"), failure);
    };
    check([&](const matrix& h) { return run++ ? softmax<batch>(h) : softmax<hidden>(h); });
    check([&](const matrix& h) { return rms_norm(h, w, run++ ? 1.0 : 1e-5); });
    check([&](const matrix& h) { return layer_norm(h, w, w, run++ ? 1.0 : 1e-5); });
  });
}
TEST_CASE("a checkpointed function that reads another tensor under the same name the second time") {
  alone([](context& ctx) {
    row x = normal<row>(ctx, "x", {6}).requires_grad();
    const auto check = [&](auto read, auto another) {
      auto s = read();
      const auto loss = sum(checkpoint([&](const row& h) { return where(s > 0.0, h * h, h) * s; }, x));
      s = another();
      CHECK_THROWS_WITH_AS(backward(loss), doctest::Contains("capture it by value"), failure);
      CHECK(ctx.tape->size() == 0);
    };
    const auto constant = [&] { return ones<row>(ctx, {6}); };
    const auto leaf = [&] { return ones<row>(ctx, {6}).requires_grad(); };
    const row w = leaf();
    const auto activation = [&] { return w * w; };
    check(constant, constant);
    check(leaf, leaf);
    check(activation, activation);
    row h = x * x;
    h = checkpoint([&](const row& y) { return sigmoid(y) * h; }, h);
    CHECK_THROWS_WITH_AS(backward(sum(h)), doctest::Contains("capture it by value"), failure);
    h = x * x;
    for (int i = 0; i < 2; ++i) h = checkpoint([h](const row& y) { return sigmoid(y) * h; }, h);
    CHECK_NOTHROW(backward(sum(h)));
    row late;  // made by the first run, for the second too
    const auto once = [&](const row& y) {
      if (!untyped(late).ctx) late = ones<row>(ctx, {6});
      return exp(y * late);
    };
    CHECK_NOTHROW(backward(sum(checkpoint(once, x))));
  });
}
TEST_CASE("a checkpointed function whose creators, masks or formulas have other numbers the second time") {
  const auto creators = "tensor that its function makes of other numbers";
  refuses([](const row& h, int run) { return h * full<row>(*untyped(h).ctx, {6}, 1 + run); }, creators);
  refuses([](const row& h, int run) { return h * normal<row>(*untyped(h).ctx, run ? "b" : "a", {6}); }, creators);
  refuses([](const row& h, int run) { return h * uniform<row>(*untyped(h).ctx, "a", {6}, 0, 1 + run); }, creators);
  refuses(
      [](const row& h, int run) {
        using other = tensor<float, dims<ffn>>;
        return h * rename<ffn, hidden>(full<other>(*untyped(h).ctx, {6}, 1 + run));
      },
      creators);
  refuses(
      [](const row& h, int run) {
        const float numbers[] = {1, 2, 3, 4, 5, static_cast<float>(run)};
        return h * from_global<row>(*untyped(h).ctx, {6}, numbers);
      },
      creators);
  refuses([](const row& h, int run) { return where(full<row>(*untyped(h).ctx, {6}, run) > 0.5, h, silu(h)); },
          creators);
  refuses([](const row& h, int run) { return where(h > 0.5 * run, h, silu(h)); }, "with other numbers");
  refuses([](const row& h, int run) { return elementwise(steeper{1.0 + run}, h); }, "with other numbers");
  alone([](context& ctx) {
    matrix x = normal<matrix>(ctx, "x", {2, 3}).requires_grad();
    int run = 0;
    const auto f = [&](const matrix& h) { return rowwise<hidden>(tempered{1.0 + run++}, h); };
    const auto loss = sum(square(checkpoint(f, x)));
    CHECK_THROWS_WITH_AS(backward(loss), doctest::Contains("with other numbers"), failure);
  });
  // A formula's padding is no number.
  alone([](context& ctx) {
    row x = normal<row>(ctx, "x", {6}).requires_grad();
    int run = 0;
    backward(sum(checkpoint([&](const row& h) { return elementwise(capped_among(run++, 1), h); }, x)));
    CHECK(run == 2);
  });
}
TEST_CASE("a checkpointed function that turns by another table, or from another position, the second time") {
  using heads_of = tensor<double, dims<batch, seq, heads, head_dim>>;
  alone([](context& ctx) {
    const auto table_of = [&](double turn) {
      rope_table table;
      for (local_array* part : {&table.cos, &table.sin}) {
        *part = ctx.make(dtype::f64, {2, {5, 2}});
        for (int i = 0; i < 10; ++i)
          part->as<double>()[i] = part == &table.cos ? std::cos(turn * i) : std::sin(turn * i);
      }
      return table;
    };
    heads_of x = normal<heads_of>(ctx, "x", {1, 5, 1, 4}).requires_grad();
    for (const bool changes : {true, false}) {
      double turn = 1;
      const auto f = [&](const heads_of& h) { return rope(h, table_of(changes ? turn++ : turn)); };
      const auto loss = sum(square(checkpoint(f, x)));
      if (changes)
        CHECK_THROWS_WITH_AS(backward(loss), doctest::Contains("ran rope"), failure);
      else
        CHECK_NOTHROW(backward(loss));
    }
  });
}
TEST_CASE("a checkpointed function of other sizes the second time") {
  refuses([](const row& h, int run) { return slice<hidden>(h, 0, 2 + run); }, "of other sizes");
}
TEST_CASE("a checkpointed function that works on something else outside the second time") {
  alone([](context& ctx) {
    const row a = ones<row>(ctx, {6});
    row b = ones<row>(ctx, {6}).requires_grad(), x = normal<row>(ctx, "x", {6}).requires_grad();
    const auto loss = sum(checkpoint(changing([&](const row& h, int run) { return h * (run ? a * a : b * b); }), x));
    CHECK_THROWS_WITH_AS(backward(loss), doctest::Contains("it has to do the same both times"), failure);
  });
}

TEST_CASE("a checkpointed function whose ids or targets are others the second time") {
  using ids_type = tensor<std::int32_t, dims<seq>>;
  using targets_type = tensor<std::int32_t, dims<batch>>;
  alone([](context& ctx) {
    row w = normal<row>(ctx, "w", {6}).requires_grad();
    matrix table = normal<matrix>(ctx, "table", {6, 3}).requires_grad(), x = normal<matrix>(ctx, "x", {2, 6});
    const auto ids_of = [&](std::int32_t first) {
      const std::int32_t numbers[] = {first, 1, 5};
      return from_global<ids_type>(ctx, {3}, numbers);
    };
    const auto targets_of = [&](std::int32_t first) {
      const std::int32_t numbers[] = {first, 1};
      return from_global<targets_type>(ctx, {2}, numbers);
    };
    const auto takes = [](const ids_type& i) { return [&i](const row& h) { return take<hidden>(square(h), i); }; };
    const auto embeds = [](const ids_type& i) { return [&i](const matrix& t) { return embedding(i, square(t)); }; };
    const auto loses = [&](const targets_type& t) { return [&](const row& h) { return cross_entropy(x * h, t).sum; }; };
    const auto check = [&](auto of, auto make, auto& argument) {
      {
        auto i = make(0);
        const auto loss = sum(checkpoint(of(i), argument));
        i.write_local_share([](auto all) { all[0] = 2; });
        CHECK_THROWS_WITH_AS(backward(loss), doctest::Contains("was updated or written to before"), failure);
      }
      {
        auto i = make(0);
        const auto loss = sum(checkpoint(of(i), argument));
        i = make(2);
        CHECK_THROWS_WITH_AS(backward(loss), doctest::Contains("capture it by value"), failure);
      }
      {
        int run = 0;
        const auto f = [&](const auto& h) {
          auto made = make(2 * run++);
          return of(made)(h);
        };
        const auto loss = sum(checkpoint(f, argument));
        CHECK_THROWS_WITH_AS(backward(loss), doctest::Contains("tensor that its function makes of other"), failure);
      }
      const auto i = make(0);
      backward(sum(checkpoint(of(i), argument)));
      const auto again = on_host(argument.grad());
      argument.zero_grad();
      backward(sum(of(i)(argument)));
      CHECK(on_host(argument.grad()) == again);
      argument.zero_grad();
    };
    check(takes, ids_of, w), check(embeds, ids_of, table), check(loses, targets_of, w);
  });
}
TEST_CASE("a checkpointed function that gives its operators other operands, or another of its tensors back") {
  const auto other = "reads another tensor when the gradient is due than at first";
  const auto pair = [](const row& h, int run) {
    const row p = square(h), q = exp(h);
    return std::array<row, 2>{run ? q : p, run ? p : q};
  };
  refuses(
      [&](const row& h, int run) {
        const row p = square(h), q = exp(h);
        return run ? p * q : p * p;
      },
      other);
  refuses(
      [&](const row& h, int run) {
        const auto x = pair(h, run);
        return x[0] / x[1];
      },
      other);
  refuses(
      [&](const row& h, int run) {
        const auto x = pair(h, run);
        return where(h > 0.0, x[0], x[1]);
      },
      other);
  refuses(
      [&](const row& h, int run) {
        const auto x = pair(h, run);
        return concat<hidden>(x[0], x[1]);
      },
      other);
  refuses(
      [&](const row& h, int run) {
        const auto x = pair(h, run);
        return h * contract<hidden>(x[0], exp(x[1]));
      },
      other);
  refuses([&](const row& h, int run) { return pair(h, run)[0]; }, "gave back another tensor when its gradient was due");
  refuses(
      [&](const row& h, int run) {
        const row p = exp(h);
        return run ? h : p;
      },
      "gave back another tensor");
}
TEST_CASE("a checkpointed function within another, of which the first run of the second run is held to the first") {
  const auto within = [](auto f) {
    return [f](const row& h, int run) { return square(checkpoint([f, run](const row& g) { return f(g, run); }, h)); };
  };
  refuses(within([](const row& h, int run) { return h * full<row>(*untyped(h).ctx, {6}, 1 + run); }),
          "tensor that its function makes of other numbers");
  refuses(within([](const row& h, int run) { return elementwise(steeper{1.0 + run}, h); }), "with other numbers");
  refuses(within([](const row& h, int run) { return scale(square(h), 1.0 + run); }), "with other numbers");
  refuses(within([](const row& h, int run) { return dropout(h, 0.5, static_cast<std::uint64_t>(run)); }), "numbers");
  refuses(within([](const row& h, int run) { return run ? exp(h) : silu(h); }), "ran exp");
  alone([](context& ctx) {
    row x = normal<row>(ctx, "x", {6}).requires_grad(), factor = ones<row>(ctx, {6});
    const auto inner = [&](const row& h) { return h * factor; };
    const auto loss = sum(checkpoint([&](const row& h) { return square(checkpoint(inner, h)); }, x));
    factor = full<row>(ctx, {6}, 2);
    CHECK_THROWS_WITH_AS(backward(loss), doctest::Contains("capture it by value"), failure);
  });
}

TEST_CASE("a checkpointed function that does the same both times is let alone") {
  alone([](context& ctx) {
    row x = normal<row>(ctx, "x", {6}).requires_grad(), w = ones<row>(ctx, {6}).requires_grad();
    const auto f = [&](const row& h) {
      const auto noise = normal<row>(ctx, "noise", {6});
      return dropout(rms_norm(silu(scale(h, 2)) + noise, w), 0.5, 7);
    };
    backward(sum(square(f(x))));
    const auto plain = on_host(x.grad()), plain_w = on_host(w.grad());
    x.zero_grad(), w.zero_grad();
    const auto nested = [&](const row& h) { return checkpoint(f, h); };
    backward(sum(square(checkpoint(nested, x))));
    CHECK(on_host(x.grad()) == plain);
    CHECK(on_host(w.grad()) == plain_w);
  });
}

TEST_CASE("a checkpointed function that gives out a leaf, and a loss that is one, add to its gradient") {
  using scalar = tensor<float, dims<>>;
  alone([](context& ctx) {
    row w = ones<row>(ctx, {6}).requires_grad(), x = ones<row>(ctx, {6}).requires_grad();
    backward(sum(w * w) + sum(scale(checkpoint([&](const row&) { return w; }, x), 5)));
    CHECK(on_host(w.grad())[0] == 2 + 5);
    scalar s = full<scalar>(ctx, {}, 3).requires_grad();
    backward(square(s));
    backward(s);
    CHECK(item(s.grad()) == 6 + 1);
  });
}

TEST_CASE("a tensor that was collected in a checkpointed function and not computed again is refused") {
  alone([](context& ctx) {
    const row w = full<row>(ctx, {4}, 3).requires_grad();
    std::vector<row> collected;
    const auto y = checkpoint(
        [&](const row& h) {
          collected.push_back(h * h);
          return collected.back();
        },
        w);
    CHECK(on_host(collected[0])[0] == 9);
    backward(sum(y));
    REQUIRE(collected.size() == 2);
    CHECK_THROWS_WITH_AS(on_host(collected[1]), doctest::Contains("return it from the function"), failure);
    CHECK_THROWS_WITH_AS(collected[1] * 2.0, doctest::Contains("return it from the function"), failure);
  });
}
