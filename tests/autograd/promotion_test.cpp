// invariant -> replicate happens once per tensor and axis on a tape, however many operators use the tensor; and what an
// earlier tape promoted is not found again.
#include <memory>

#include <doctest/doctest.h>

#include <weft/autograd/backward.hpp>
#include <weft/autograd/checkpoint.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/create.hpp>
#include <weft/op/reduce.hpp>

#include "traced_ranks.hpp"

namespace {

using namespace weft;
using weft_test::traced_ranks;
using row = tensor<double, dims<hidden>>;
using rows = tensor<double, dims<batch, hidden>, shard<batch, tp>>;

TEST_CASE("bug: a whole input of sharded work gets one rank's share of its gradient (many uses, one all-reduce)") {
  traced_ranks({.tp = 4}, [](context& ctx, auto count) {
    const rows x = ones<rows>(ctx, {8, 3});
    row w = full<row>(ctx, {3}, 2).requires_grad();
    const auto loss = sum(x * w + x * w - (w + x) * w);
    require(count("all_reduce", "tp") == 0, "the forward moved something");
    backward(loss);
    require(count("all_reduce", "tp") == 1, "the backward made ", count("all_reduce", "tp"), " all-reduces");
    // d/dw of sum over 8 rows of 2 x w - (w + x) w, at x = 1 and w = 2
    for (int i = 0; i < 3; ++i)
      require(w.grad().local_share()[i] == 8 * (2 - 4 - 1), "dw is ", w.grad().local_share()[i]);
  });
}

TEST_CASE("one all-reduce for each axis that the uses vary along, and for each tensor") {
  traced_ranks({.dp = 2, .tp = 2}, [](context& ctx, auto count) {
    using both = tensor<double, dims<batch, hidden>, shard<batch, dp, tp>>;
    const both x = ones<both>(ctx, {8, 3});
    row w = ones<row>(ctx, {3}).requires_grad(), v = ones<row>(ctx, {3}).requires_grad();
    backward(sum(x * w + x * w + x * v));
    require(count("all_reduce", "dp") == 2 && count("all_reduce", "tp") == 2,
            "all-reduces: ", count("all_reduce", "dp"), " over dp, ", count("all_reduce", "tp"), " over tp");
    for (int i = 0; i < 3; ++i)
      require(w.grad().local_share()[i] == 16 && v.grad().local_share()[i] == 8, "dw or dv is wrong");
  });
}

TEST_CASE("a promotion lasts one tape: every step reduces its own gradient") {
  traced_ranks({.tp = 2}, [](context& ctx, auto count) {
    const rows x = ones<rows>(ctx, {4, 3});
    row w = ones<row>(ctx, {3}).requires_grad();
    for (int step = 1; step <= 3; ++step) {
      w.zero_grad();
      backward(sum(x * w));
      require(count("all_reduce", "tp") == step, "step ", step, ": ", count("all_reduce", "tp"), " all-reduces so far");
      require(w.grad().local_share()[0] == 4, "step ", step, ": dw is ", w.grad().local_share()[0]);
    }
  });
}

TEST_CASE("a new tape in the memory of an old one finds nothing of it") {
  traced_ranks({.tp = 2}, [](context& ctx, auto count) {
    const rows x = ones<rows>(ctx, {4, 3});
    row w = ones<row>(ctx, {3}).requires_grad();
    alignas(tape) std::byte place[sizeof(tape)];
    for (int step = 1; step <= 3; ++step) {
      tape* own = new (place) tape;
      {
        const recording on(ctx, own);
        const auto loss = sum(x * w);
        untyped(loss).slot->gradient = untyped(ones<tensor<double, dims<>>>(ctx, {})).data;
        untyped(loss).slot->has_gradient = true;
        own->backward(ctx);
      }
      own->~tape();
      require(count("all_reduce", "tp") == step, "step ", step, ": ", count("all_reduce", "tp"), " all-reduces so far");
      require(w.grad().local_share()[0] == 4 * step, "step ", step, ": dw is ", w.grad().local_share()[0]);
    }
  });
}

TEST_CASE("recomputation promotes on its own tape, in every step") {
  traced_ranks({.tp = 2}, [](context& ctx, auto count) {
    row w = full<row>(ctx, {3}, 3).requires_grad();
    for (int step = 1; step <= 4; ++step) {
      w.zero_grad();
      const rows x = ones<rows>(ctx, {4, 3});
      const auto f = [&](const rows& in) { return in * w + in * w; };
      backward(sum(checkpoint(f, checkpoint(f, x))));
      require(count("all_reduce", "tp") == 2 * step, "step ", step, ": ", count("all_reduce", "tp"),
              " all-reduces so far");
      require(w.grad().local_share()[0] == 4 * 8 * 3, "step ", step, ": dw is ",
              w.grad().local_share()[0]);  // (2w)^2 = 4w^2
    }
  });
}

TEST_CASE("nothing is promoted where nothing is recorded, or where there is one rank") {
  traced_ranks({.tp = 2}, [](context& ctx, auto count) {
    row w = ones<row>(ctx, {3}).requires_grad();
    {
      const recording off(ctx, nullptr);
      const auto y = ones<rows>(ctx, {4, 3}) * w;
      require(!untyped(y).slot, "something was recorded");
    }
    const auto z = ones<rows>(ctx, {4, 3}) * ones<row>(ctx, {3});
    require(!untyped(z).slot && ctx.tape->size() == 0 && count("all_reduce", "tp") == 0, "something was recorded");
  });
  traced_ranks({}, [](context& ctx, auto) {
    row w = ones<row>(ctx, {3}).requires_grad();
    const auto y = ones<rows>(ctx, {4, 3}) * w;
    require(ctx.tape->size() == 1, "one rank records ", ctx.tape->size(), " entries for one product");
  });
}

}  // namespace
