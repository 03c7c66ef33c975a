// Numbers that no type can see, in programs of tensors: each kind is silent without launch_options.check.
#include "consistency/caught.hpp"

using namespace weft;
using weft_test::caught;
using weft_test::caught_anyway;
using weft_test::passes;

namespace {

using tp_mesh = strategy<mesh<tp>>;
using dp_mesh = strategy<mesh<dp>>;
using both = strategy<mesh<dp, tp>>;
using rows = tensor<float, dims<batch, hidden>>;
using rows_of_dp = tensor<float, dims<batch, hidden>, shard<batch, dp>>;
using matrix = tensor<float, dims<hidden, ffn>>;
using columns = tensor<float, dims<hidden, ffn>, shard<ffn, tp>>;
using copies = tensor<float, dims<hidden, ffn>, replicate<dp>>;
using ids = tensor<std::int32_t, dims<batch, seq>>;

columns columns_of(context& ctx) { return normal<columns>(ctx, "w", {4, 6}); }
std::string named(const char* name, int rank) { return name + std::to_string(rank); }

struct times {
  static constexpr std::string_view name = "times";
  double factor;
  double forward(double x) const { return x * factor; }
  double vjp(double dy) const { return dy * factor; }
};
struct rows_times {
  static constexpr std::string_view name = "rows_times";
  static constexpr bool keeps_input = false, keeps_output = false;
  double factor;
  template <class T>
  void forward(std::span<const T> x, std::span<T> y) const {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = T(factor) * x[i];
  }
  template <class T>
  void vjp(std::span<const T> dy, std::span<T> dx) const {
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = T(factor) * dy[i];
  }
};
struct all_times {
  static constexpr std::string_view name = "all_times";
  double factor;
  template <class X>
  X forward(const X& x) const {
    return x * 1.0;
  }
  template <class X>
  X vjp(const X& dy) const {
    return dy * 1.0;
  }
};

}  // namespace

TEST_CASE("kind 1: a seed that adds the rank") {
  caught<tp_mesh>(
      {.tp = 2},
      [](context& ctx) {
        const auto x = normal<rows>(ctx, named("x", ctx.rank().here()), {2, 4});
        contract<hidden>(x, columns_of(ctx));
      },
      "check: in LINE, contract takes [batch, hidden] to be the same on every rank along tp, and it is not: at [0, 0] "
      "rank 0 "
      "has ");
}
TEST_CASE("kind 2: a context's seed that adds the rank, where all is sharded") {
  caught<dp_mesh>(
      {.dp = 2},
      [](context& ctx) {
        ctx.seed += static_cast<std::uint64_t>(ctx.rank().here());
        auto x = normal<rows_of_dp>(ctx, "x", {2, 4}).requires_grad();
        backward(sum(x));
      },
      "check: backward takes the context's seed to be the same on every rank along dp, and it is not: rank 0 has 1, "
      "rank 1 has 2");
}
TEST_CASE("kind 3: a branch on one rank") {
  caught<tp_mesh>(
      {.tp = 3},
      [](context& ctx) {
        auto x = ones<rows>(ctx, {2, 4});
        if (ctx.is_first()) x = x * 0.5;
        contract<hidden>(x, columns_of(ctx));
      },
      "check: in LINE, contract takes [batch, hidden] to be the same on every rank along tp, and it is not: at [0, 0] "
      "rank 0 "
      "has 0.5, ranks 1, 2 have 1");
}
TEST_CASE("kind 4: a mean divided twice on one rank, its sum being pending") {
  caught<dp_mesh>(
      {.dp = 2},
      [](context& ctx) {
        auto x = ones<rows_of_dp>(ctx, {2, 4}).requires_grad();
        auto loss = mean(square(x));
        if (ctx.rank() == 1) loss = loss * 0.5;
        backward(loss);
      },
      "check: backward takes what it backpropagates to be the same on every rank along dp, and it is not: as step 0 "
      "rank "
      "0 has ");
}
TEST_CASE("kind 5: a mean divided twice on one rank, its sum being finished") {
  caught<dp_mesh>(
      {.dp = 2},
      [](context& ctx) {
        auto x = ones<rows_of_dp>(ctx, {2, 4}).requires_grad();
        auto loss = all_reduce<dp>(mean(square(x)));
        loss = loss * (ctx.rank() == 1 ? 0.5 : 1);
        backward(loss);
      },
      "check: backward takes the loss to be the same on every rank along dp, and it is not: rank 0 has 1, rank 1 has "
      "0.5");
}
TEST_CASE("kind 6: weights that only rank 0 has read") {
  caught<dp_mesh>(
      {.dp = 2},
      [](context& ctx) {
        auto w = zeros<copies>(ctx, {4, 6});
        if (ctx.is_first())
          w.write_local_share([](auto all) {
            for (float& element : all) element = 0.25f;
          });
        contract<hidden>(ones<rows_of_dp>(ctx, {2, 4}), w);
      },
      "check: in LINE, contract takes [hidden, ffn] to be the same on every rank along dp, and it is not: at [0, 0] "
      "rank 0 has "
      "0.25, rank 1 has 0");
}
TEST_CASE("kind 7: a dropout stream that depends on the rank") {
  caught<tp_mesh>(
      {.tp = 2},
      [](context& ctx) {
        const auto x = dropout(ones<rows>(ctx, {16, 4}), 0.5, static_cast<std::uint64_t>(ctx.rank().here()));
        contract<hidden>(x, columns_of(ctx));
      },
      "check: in LINE, contract takes [batch, hidden] to be the same on every rank along tp, and it is not: at [");
}
TEST_CASE("kind 8: data shuffled by each rank of tp") {
  caught<tp_mesh>(
      {.tp = 2},
      [](context& ctx) {
        const auto tokens = generate<ids>(ctx, {2, 4}, [&](std::int64_t i) { return (i + ctx.rank().here()) % 8; });
        embedding(tokens, normal<tensor<float, dims<vocab, hidden>, shard<vocab, tp>>>(ctx, "table", {8, 4}));
      },
      "check: in LINE, embedding takes [batch, seq] to be the same on every rank along tp, and it is not: at [0, 0] "
      "rank 0 has "
      "0, rank 1 has 1");
}
TEST_CASE("kind 9: targets of another batch on one rank of tp") {
  caught<tp_mesh>(
      {.tp = 2},
      [](context& ctx) {
        const auto logits = normal<tensor<float, dims<batch, seq, vocab>, shard<vocab, tp>>>(ctx, "l", {2, 4, 8});
        cross_entropy(logits,
                      generate<ids>(ctx, {2, 4}, [&](std::int64_t i) { return i < 7 ? i : ctx.rank().here(); }));
      },
      "check: in LINE, cross_entropy takes [batch, seq] to be the same on every rank along tp, and it is not: at [1, "
      "3] rank 0 "
      "has 0, rank 1 has 1");
}
TEST_CASE("kind 10: a learning rate of each rank's own") {
  caught<tp_mesh>(
      {.tp = 2},
      [](context& ctx) {
        auto w = columns_of(ctx).requires_grad();
        backward(all_reduce<tp>(sum(square(w))));
        adamw_state state;
        adamw_update(w, w.grad(), state, {.lr = 0.5 + ctx.rank().here()});
      },
      "check: AdamW takes lr to be the same on every rank along tp, and it is not: rank 0 has 0.5, rank 1 has "
      "1.5");
}
TEST_CASE("kind 11: a gradient changed on one rank before the optimizer takes it") {
  caught<dp_mesh>(
      {.dp = 2},
      [](context& ctx) {
        auto w = ones<copies>(ctx, {4, 6}).requires_grad();
        backward(sum(contract<hidden>(ones<rows_of_dp>(ctx, {2, 4}), w)));
        auto g = all_reduce<dp>(w.grad());
        if (ctx.rank() == 1) g = g * 0.5;  // clipped by a norm of its own, say
        adamw_state state;
        adamw_update(w, g, state, {});
      },
      "check: AdamW takes the gradient of [hidden, ffn] to be the same on every rank along dp, and it is not: "
      "at "
      "[0, 0] rank 0 has 2, rank 1 has 1");
}
TEST_CASE("kind 12: a decision by a rank's own share") {
  caught<tp_mesh>(
      {.tp = 2},
      [](context& ctx) {
        const auto w = generate<columns>(ctx, {4, 6}, [](std::int64_t i) { return i % 6 < 3 ? 1.0 : -1.0; });
        double own = 0;
        for (const float element : local_share_on_host(w)) own += static_cast<double>(element);
        auto x = ones<rows>(ctx, {2, 4});
        if (own > 0) x = x * 2;
        contract<hidden>(x, w);
      },
      "check: in LINE, contract takes [batch, hidden] to be the same on every rank along tp, and it is not: at [0, 0] "
      "rank 0 "
      "has "
      "2, rank 1 has 1");
}
TEST_CASE("kind 13: a backward's seed by the rank's own count of tokens") {
  caught<dp_mesh>(
      {.dp = 2},
      [](context& ctx) {
        auto x = ones<rows_of_dp>(ctx, {2, 4}).requires_grad();
        const int tokens = ctx.rank() == 0 ? 4 : 2;
        backward(sum(x), 1.0 / tokens);
      },
      "check: backward takes its seed to be the same on every rank along dp, and it is not: rank 0 has 0.25, rank 1 "
      "has "
      "0.5");
}
TEST_CASE("kind 14: a loss scaled by the rank's own count of tokens") {
  caught<dp_mesh>(
      {.dp = 2},
      [](context& ctx) {
        auto x = ones<rows_of_dp>(ctx, {2, 4}).requires_grad();
        const int tokens = ctx.rank() == 0 ? 4 : 2;
        backward(scale(sum(x), 1.0 / tokens));
      },
      "check: backward takes what it backpropagates to be the same on every rank along dp, and it is not: as step 0 "
      "rank "
      "0 has scale of [], rank 1 has scale of [] with another number (weights that are meant to differ are a sharded "
      "tensor)");
}
TEST_CASE("kind 15: an extent that depends on the rank") {
  caught<tp_mesh>(
      {.tp = 2},
      [](context& ctx) {
        contract<hidden>(ones<rows>(ctx, {2 + ctx.rank().here(), 4}), columns_of(ctx));
      },
      "check: in LINE, contract takes [batch, hidden] to be the same on every rank along tp, and it is not: rank 0 has "
      "8 "
      "elements, rank 1 has 12 elements");
}
TEST_CASE("kind 15b: an operator without a name, known by what was called before it") {
  const int line = __LINE__;
  caught<tp_mesh>(
      {.tp = 2},
      [](context& ctx) {
        const auto h = contract<hidden>(ones<rows>(ctx, {2, 4}), columns_of(ctx));
        h* full<tensor<float, dims<batch>>>(ctx, {2}, ctx.rank().here());
      },
      "check: after numbers_test.cpp:" + std::to_string(line + 4) +
          ", operator* takes [batch] to be the same on every rank along tp, and it is not: at [0] rank 0 has 0, rank 1 "
          "has 1");
}
TEST_CASE("kind 16: a value split though it differs") {
  const int line = __LINE__;
  caught<tp_mesh>(
      {.tp = 2},
      [](context& ctx) {
        split<ffn, tp>(full<matrix>(ctx, {4, 6}, ctx.rank().here()));
      },
      "check: in numbers_test.cpp:" + std::to_string(line + 4) +
          ", split takes [hidden, ffn] to be the same on every rank along tp, and it is not: at [0, 0] rank 0 has 0, "
          "rank 1 has 1");
}
TEST_CASE("kind 17: a value that is replicate, so that each rank may do its own with it, and differs") {
  caught<tp_mesh>(
      {.tp = 2},
      [](context& ctx) {
        const auto x = full<tensor<float, dims<batch, hidden>, replicate<tp>>>(ctx, {2, 4}, 1 + ctx.rank().here());
        contract<hidden>(x, columns_of(ctx));
      },
      "check: in LINE, contract takes [batch, hidden] to be the same on every rank along tp, and it is not: at [0, 0] "
      "rank 0 "
      "has "
      "1, rank 1 has 2");
}
TEST_CASE("kind 18: a value counted by its first rank, though it differs") {
  caught<tp_mesh>(
      {.tp = 2},
      [](context& ctx) {
        all_reduce<tp>(convert<partial<tp>>(full<rows>(ctx, {2, 4}, ctx.rank().here())));
      },
      "check: in numbers_test.cpp:" + std::to_string(__LINE__ - 2) +
          ", convert<partial> takes [batch, hidden] to be the same on every rank along tp");
}
TEST_CASE("kind 19: a number that is read, and differs") {
  caught<tp_mesh>(
      {.tp = 2}, [](context& ctx) { item(full<tensor<float, dims<>>>(ctx, {}, 3 + ctx.rank().here())); },
      "check: in numbers_test.cpp:" + std::to_string(__LINE__ - 1) +
          ", item takes [] to be the same on every rank along tp, and it is not: rank 0 has 3, rank 1 has 4");
}
TEST_CASE("kind 20: numbers that are read, and differ") {
  caught<tp_mesh>(
      {.tp = 3},
      [](context& ctx) {
        on_host(full<rows>(ctx, {2, 4}, ctx.rank() == 2));
      },
      "check: in numbers_test.cpp:" + std::to_string(__LINE__ - 2) +
          ", on_host takes [batch, hidden] to be the same on every rank along tp, and it is not: rank 2 differs from "
          "ranks 0, 1");
}
TEST_CASE("kind 21: dropout on one rank only, where all is sharded") {
  caught<dp_mesh>(
      {.dp = 2},
      [](context& ctx) {
        auto x = ones<rows_of_dp>(ctx, {4, 4}).requires_grad();
        backward(sum(ctx.rank() == 0 ? x * 1 : dropout(x, 0.1, 1)));
      },
      "check: backward takes what it backpropagates to be the same on every rank along dp, and it is not: as step 1 "
      "rank "
      "0 has scale of [2, 4], rank 1 has dropout of [2, 4]");
}
TEST_CASE("kind 22: a replica whose weight has drifted, in the optimizer") {
  caught<dp_mesh>(
      {.dp = 4},
      [](context& ctx) {
        auto w = ones<rows>(ctx, {2, 4}).requires_grad();
        backward(sum(square(w)));
        const auto g = w.grad();
        if (ctx.rank() == 2) w.write_local_share([](auto all) { all[5] = 1.25f; });
        adamw_state state;
        adamw_update(w, g, state, {});
      },
      "check: AdamW takes [batch, hidden] to be the same on every rank along dp, and it is not: at [1, 1] ranks "
      "0, 1, 3 have 1, rank 2 has 1.25");
}
TEST_CASE("kind 23: an optimizer that has taken a step less on one rank") {
  caught<tp_mesh>(
      {.tp = 2},
      [](context& ctx) {
        auto w = columns_of(ctx).requires_grad();
        backward(all_reduce<tp>(sum(square(w))));
        adamw_state state;
        state.steps = ctx.rank().here();
        adamw_update(w, w.grad(), state, {});
      },
      "check: AdamW takes the number of steps to be the same on every rank along tp, and it is not: rank 0 has "
      "0, rank 1 has 1");
}

TEST_CASE("a sentence names the unit and the micro-batch") {
  using S = both;
  const int line = __LINE__;
  const std::string said = weft_test::message_of<S>(
      {.dp = 2},
      [](context& ctx) {
        parameter_registry registry;
        weight<S, dims<hidden, ffn>> w;
        registry.begin_unit("layer 3");
        registry.add(ctx, w, "w", {2, {4, 6}}, {1});
        parameter_store<cpu_backend, fp32> store(ctx, registry, config_of<replicated>());
        store.each_stored([&](const stored_parameter& p) {
          if (ctx.rank() == 1) p.weight.as<float>()[7] = 0;
        });
        store.begin_step(1);
        ctx.micro_batch = 2;
        in_unit(
            ctx, store, 0, [&](const auto& x) { return contract<hidden>(x, w); }, ones<rows_of_dp>(ctx, {2, 4}));
      },
      true);
  const std::string part =
      "check: in layer 3, micro-batch 2, numbers_test.cpp:" + std::to_string(line + 15) +
      ", contract takes [hidden, ffn] to be the same on every rank along dp, and it is not: at [1, 1] rank 0 has ";
  CHECK(said.substr(0, part.size()) == part);
}

TEST_CASE("a rank that takes another path ends in an error, never in waiting for ever") {
  caught_anyway<tp_mesh>(
      {.tp = 2},
      [](context& ctx) {
        auto x = ones<rows>(ctx, {2, 4});
        const auto w = columns_of(ctx);
        const auto v = normal<tensor<float, dims<ffn, hidden>, shard<ffn, tp>>>(ctx, "v", {6, 4});
        for (int layer = 0; layer < 3 - ctx.rank().here(); ++layer)  // one rank leaves early
          x = all_reduce<tp>(contract<ffn>(contract<hidden>(x, w), v));
      },
      "rank 1");
}

TEST_CASE("right programs pass") {
  passes<both>({.dp = 2, .tp = 2}, [](context& ctx) {
    // uneven extents: what padding holds counts for nothing
    auto x = normal<tensor<float, dims<batch, hidden>, shard<batch, dp>>>(ctx, "x", {3, 5});
    auto w = normal<tensor<float, dims<hidden, ffn>, replicate<dp>, shard<ffn, tp>>>(ctx, "w", {5, 7}).requires_grad();
    auto v = normal<tensor<float, dims<ffn, hidden>, replicate<dp>, shard<ffn, tp>>>(ctx, "v", {7, 5}).requires_grad();
    adamw_state w_state, v_state;
    for (int step = 0; step < 3; ++step) {
      w.zero_grad(), v.zero_grad();
      const auto y = all_reduce<tp>(contract<ffn>(silu(contract<hidden>(x, w)), v));
      const auto loss = mean(square(y));
      const auto whole = all_reduce<dp>(loss);
      backward(loss);
      adamw_update(w, all_reduce<dp>(w.grad()), w_state, {});
      adamw_update(v, all_reduce<dp>(v.grad()), v_state, {});
      if (ctx.is_first()) CHECK(item(whole) > 0);  // one rank alone may read, and do as it likes
      if (ctx.index<dp>() == step % 2) on_host(whole);
    }
  });
}
TEST_CASE("what a checkpointed function needn't compute again isn't compared again") {
  passes<tp_mesh>({.tp = 2}, [](context& ctx) {
    auto w = normal<tensor<float, dims<hidden, ffn>>>(ctx, "w", {4, 6}).requires_grad();
    const auto y =
        checkpoint([](const auto& x) { return convert<shard<ffn, tp>>(2.f * convert<replicate<tp>>(x)); }, w);
    backward(sum(y));
    CHECK(item(sum(w.grad())) == 48);
  });
}
TEST_CASE("ranks that read at the same place, but not as often, pass") {
  passes<tp_mesh>({.tp = 2}, [](context& ctx) {
    for (int i = 0; i < 4; ++i) {
      const auto x = full<tensor<float, dims<>>>(ctx, {}, i);
      if (ctx.rank() == 0 || i % 2 == 0) item(x);
    }
  });
}
TEST_CASE("an operator of one's own with a number that adds the rank") {
  const auto program = [](auto apply) {
    return [apply](context& ctx) {
      const auto x = normal<rows_of_dp>(ctx, "x", {2, 4}).requires_grad();
      backward(sum(apply(x, 1.0 + ctx.rank().here())));
    };
  };
  caught<dp_mesh>(
      {.dp = 2}, program([](const auto& x, double n) { return elementwise(times{n}, x); }),
      "check: backward takes what it backpropagates to be the same on every rank along dp, and it is not: as "
      "step 1 rank 0 has times of [1, 4], rank 1 has times of [1, 4] with another number");
  caught<dp_mesh>(
      {.dp = 2}, program([](const auto& x, double n) { return rowwise<hidden>(rows_times{n}, x); }),
      "check: backward takes what it backpropagates to be the same on every rank along dp, and it is not: as "
      "step 1 rank 0 has rows_times of [1, 4], rank 1 has rows_times of [1, 4] with another number");
  caught<dp_mesh>(
      {.dp = 2}, program([](const auto& x, double n) { return custom_gradient(all_times{n}, x); }),
      "check: backward takes what it backpropagates to be the same on every rank along dp, and it is not: as "
      "step 1 rank 0 has all_times of [1, 4], rank 1 has all_times of [1, 4] with another number");
}
