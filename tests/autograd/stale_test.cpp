// Values whose recording is gone: whoever uses one as if a gradient could still come through it is told so, by every
// operator; leaves, parameters, detached values and what isn't recorded go on as before.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/autograd/backward.hpp>
#include <weft/autograd/checkpoint.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/attention.hpp>
#include <weft/op/contract.hpp>
#include <weft/op/convert.hpp>
#include <weft/op/create.hpp>
#include <weft/op/cross_entropy.hpp>
#include <weft/op/dropout.hpp>
#include <weft/op/elementwise.hpp>
#include <weft/op/embedding.hpp>
#include <weft/op/layer_norm.hpp>
#include <weft/op/reduce.hpp>
#include <weft/op/rms_norm.hpp>
#include <weft/op/softmax.hpp>
#include <weft/op/swiglu.hpp>
#include <weft/op/to_host.hpp>
#include <weft/op/view.hpp>

#include "traced_ranks.hpp"

namespace {
using namespace weft;
using row = tensor<double, dims<hidden>>;
using matrix = tensor<double, dims<batch, hidden>>;
using numbers = std::vector<double>;

template <class F>
void alone(F f) {
  weft_test::traced_ranks({}, [&](context& ctx, auto) { f(ctx); });
}
double first(const row& x) { return on_host(x)[0]; }

template <any_tensor X>
const value& output_of(const X& x) {
  return untyped(x);
}
template <class Sum, class Count>
const value& output_of(const loss<Sum, Count>& l) {
  return untyped(l.sum);
}

// f of an activation whose backward is over can be read, and is not backpropagated: the sentence names the operator.
// Before that backward, and of the detached value, f is fine.
template <class X, class F>
void refuses(context& ctx, const char* name, const X& leaf, F&& f) {
  INFO(std::string(name));
  X x = leaf;
  x.requires_grad();
  const X h = scale(x, 2);
  CHECK_NOTHROW(f(h));
  backward(sum(h));
  const auto result = f(h);
  const value& late = output_of(result);
  CHECK_THROWS_WITH_AS(detail::require_recorded("it", late), doctest::Contains("is no longer recorded"), failure);
  CHECK_THROWS_WITH_AS(detail::require_recorded("it", late),
                       doctest::Contains((std::string(name) + " read a value").c_str()), failure);
  CHECK(late.slot->epoch == tape::no_epoch);
  CHECK(ctx.tape->size() == 0);
  CHECK_NOTHROW(f(detach(h)));
  {
    const recording off(ctx, nullptr);
    CHECK_NOTHROW(f(h));
  }
  ctx.tape->clear();
}
}  // namespace

TEST_CASE("a second loss over what was backpropagated: 114, or an error, never 6") {
  alone([](context& ctx) {
    row w = full<row>(ctx, {1}, 3).requires_grad();
    const row h = square(w);  // 9, dh/dw = 6
    const auto one = sum(h);
    const auto two = sum(square(h));  // d/dw = 2 * 9 * 6 = 108
    backward(one + two);
    CHECK(first(w.grad()) == 114);
    w.zero_grad();
    const row again = square(w);
    backward(sum(again));
    CHECK(first(w.grad()) == 6);
    CHECK(item(sum(square(again))) == 81);  // to be read
    CHECK_THROWS_WITH_AS(backward(sum(square(again))), doctest::Contains("square read a value that is no"), failure);
    CHECK_THROWS_WITH_AS(backward(sum(w) + sum(square(again))), doctest::Contains("is no longer recorded"), failure);
    CHECK_THROWS_WITH_AS(backward(two), doctest::Contains("no longer recorded"), failure);
    backward(sum(square(square(w))));  // the way out: computed again
    CHECK(first(w.grad()) == 114);
  });
}

TEST_CASE("every operator refuses an activation whose backward is over, by name") {
  alone([](context& ctx) {
    const matrix x = normal<matrix>(ctx, "x", {2, 4}), y = ones<matrix>(ctx, {2, 4});
    const row gain = ones<row>(ctx, {4});
    refuses(ctx, "silu", x, [](const matrix& h) { return silu(h); });
    refuses(ctx, "scale", x, [](const matrix& h) { return -h; });
    refuses(ctx, "operator*", x, [&](const matrix& h) { return y * h; });
    refuses(ctx, "mean", x, [](const matrix& h) { return mean(h); });
    refuses(ctx, "contract", x, [&](const matrix& h) { return contract<hidden>(h, gain); });
    refuses(ctx, "slice", x, [](const matrix& h) { return slice<hidden>(h, 1, 2); });
    refuses(ctx, "permute", x, [](const matrix& h) { return permute<hidden, batch>(h); });
    refuses(ctx, "cast", x, [](const matrix& h) { return cast<float>(h); });
    refuses(ctx, "sum", x, [](const matrix& h) { return sum(rename<batch, seq>(h)); });
    refuses(ctx, "softmax", x, [](const matrix& h) { return softmax<hidden>(h); });
    refuses(ctx, "dropout", x, [](const matrix& h) { return dropout(h, 0.5, 1); });
    refuses(ctx, "swiglu", x, [&](const matrix& h) { return swiglu(y, h); });
    refuses(ctx, "rms_norm", x, [&](const matrix& h) { return rms_norm(h, gain); });
    refuses(ctx, "rms_norm", gain, [&](const row& h) { return rms_norm(x, h); });
    refuses(ctx, "layer_norm", gain, [&](const row& h) { return layer_norm(x, gain, h); });
    refuses(ctx, "checkpoint", x,
            [](const matrix& h) { return checkpoint([](const matrix& in) { return square(in); }, h); });
    refuses(ctx, "square", x, [&](const matrix& h) {  // held by a function that runs twice
      return checkpoint([&](const row& in) { return in * sum<batch>(square(h)); }, gain);
    });
    const auto table = normal<tensor<double, dims<vocab, hidden>>>(ctx, "table", {5, 4});
    const auto ids = zeros<tensor<std::int32_t, dims<batch>>>(ctx, {2});
    refuses(ctx, "embedding", table, [&](const auto& h) { return embedding(ids, h); });
    refuses(ctx, "cross_entropy", x, [&](const matrix& h) { return cross_entropy(h, ids); });
    const auto q = normal<tensor<double, dims<batch, seq, heads, head_dim>>>(ctx, "q", {1, 2, 2, 4});
    refuses(ctx, "attention", q, [&](const auto& h) { return attention(q, h, q); });
  });
  weft_test::traced_ranks({.tp = 2}, [](context& ctx, auto) {
    const auto x = ones<tensor<double, dims<batch, hidden>>>(ctx, {2, 4});
    refuses(ctx, "convert", x, [](const auto& h) { return split<hidden, tp>(h); });
    refuses(ctx, "promote", x, [](const auto& h) { return convert<replicate<tp>>(h); });
  });
}

TEST_CASE("leaves and what was derived from them for another recording are used on every tape") {
  weft_test::traced_ranks({.tp = 2}, [](context& ctx, auto) {
    auto w = normal<tensor<double, dims<ffn, hidden>, shard<ffn, tp>>>(ctx, "w", {4, 4}).requires_grad();
    auto x = normal<matrix>(ctx, "x", {2, 4}).requires_grad();
    const auto loss = [&] { return mean(square(all_reduce<tp>(contract<ffn>(contract<hidden>(x, w), w)))); };
    backward(loss());
    const auto once = on_host(x.grad());
    tape other;
    {
      const recording on(ctx, &other);
      CHECK_NOTHROW(backward(loss()));
    }
    backward(loss());
    for (std::size_t i = 0; i < once.size(); ++i) CHECK(on_host(x.grad())[i] == doctest::Approx(3 * once[i]));
  });
}

TEST_CASE("a value of another tape is refused while that one waits, whichever is backpropagated first") {
  alone([](context& ctx) {
    row w = full<row>(ctx, {1}, 3).requires_grad();
    const row h = square(w);
    tape other;
    const recording on(ctx, &other);
    CHECK_THROWS_WITH_AS(backward(sum(h)), doctest::Contains("is no longer recorded"), failure);
    CHECK_NOTHROW(backward(sum(w * detach(h))));
    CHECK(first(w.grad()) == 9);
  });
}

TEST_CASE("a function that runs twice may hold activations of the tape around it, however deep") {
  numbers gradients[3][2];
  for (int depth = 0; depth < 3; ++depth)
    for (const bool split : {false, true})
      alone([&](context& ctx) {
        matrix w = normal<matrix>(ctx, "w", {2, 4}).requires_grad();
        row b = normal<row>(ctx, "b", {4}).requires_grad();
        const matrix h = silu(w);
        const row gate = sigmoid(b);
        const auto inner = [&](const matrix& x) { return silu(x * gate) * h; };
        const auto outer = [&](const matrix& x) { return depth == 2 ? checkpoint(inner, x) * h : inner(x) * h; };
        const auto loss = sum(square(depth ? checkpoint(outer, w) : outer(w)));
        if (split) {
          detail::seed_loss(loss, 1);
          ctx.tape->backward_inputs(ctx);
          ctx.tape->backward_weights(ctx);
        } else {
          backward(loss);
        }
        numbers& out = gradients[depth][split];
        for (const double g : on_host(w.grad())) out.push_back(g);
        for (const double g : on_host(b.grad())) out.push_back(g);
        CHECK_THROWS_WITH_AS(backward(sum(checkpoint(inner, w))), doctest::Contains("is no longer recorded"), failure);
      });
  for (const auto& by_depth : gradients)
    for (const numbers& g : by_depth) {
      REQUIRE(g.size() == 12);
      for (std::size_t i = 0; i < g.size(); ++i) CHECK(g[i] == doctest::Approx(gradients[0][0][i]));
    }
}

TEST_CASE("detach cuts the gradient there and nowhere else") {
  alone([](context& ctx) {
    row w = full<row>(ctx, {1}, 3).requires_grad();
    const row h = square(w);
    backward(sum(h * detach(h)));
    CHECK(first(w.grad()) == 9 * 6);
    CHECK(!untyped(detach(w)).slot);
    w.zero_grad();
    backward(sum(checkpoint([](const row& x) { return x * detach(square(x)); }, w)));
    CHECK(first(w.grad()) == 9);
  });
}

TEST_CASE("a backward in two parts is finished before anything else is recorded") {
  alone([](context& ctx) {
    row w = full<row>(ctx, {1}, 3).requires_grad();
    untyped(w).slot->of_weights = true;
    CHECK_THROWS_WITH_AS(ctx.tape->backward_weights(ctx), doctest::Contains("backward_inputs()"), failure);
    const auto loss = sum(square(w));
    detail::seed_loss(loss, 1);
    ctx.tape->backward_inputs(ctx);
    const auto half_done = doctest::Contains("half of a backward in two parts");
    CHECK_THROWS_WITH_AS(square(w), half_done, failure);
    CHECK_THROWS_WITH_AS(ctx.tape->backward(ctx), half_done, failure);
    CHECK_THROWS_WITH_AS(ctx.tape->backward_inputs(ctx), half_done, failure);
    CHECK_THROWS_WITH_AS(backward(loss), half_done, failure);
    ctx.tape->backward_weights(ctx);
    CHECK(first(w.grad()) == 6);
    CHECK_THROWS_WITH_AS(backward(square(loss)), doctest::Contains("is no longer recorded"), failure);
    backward(sum(square(w)));
    CHECK(first(w.grad()) == 12);
  });
}
