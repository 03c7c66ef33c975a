// The backward in two parts: first what activations want, later what weights want; together what one backward gives,
// bit for bit, with recomputation, promotions over an axis and weights that are computed from others.
#include <vector>

#include <doctest/doctest.h>

#include <weft/autograd/backward.hpp>
#include <weft/autograd/checkpoint.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/contract.hpp>
#include <weft/op/convert.hpp>
#include <weft/op/create.hpp>
#include <weft/op/elementwise.hpp>
#include <weft/op/embedding.hpp>
#include <weft/op/reduce.hpp>
#include <weft/op/rms_norm.hpp>

#include "traced_ranks.hpp"

namespace {
using namespace weft;
using vector = tensor<double, dims<hidden>>;
using matrix = tensor<double, dims<ffn, hidden>>;
using stream = tensor<double, dims<batch, hidden>>;
using numbers = std::vector<double>;

template <class W>
W weight_of(context& ctx, const char* name, std::initializer_list<std::int64_t> sizes) {
  W w = normal<W>(ctx, name, sizes).requires_grad();
  untyped(w).slot->of_weights = true;
  return w;
}
numbers gradient(const value& v) {
  const local_array& g = v.slot->gradient;
  return v.slot->has_gradient ? numbers(g.as<double>(), g.as<double>() + g.elements()) : numbers();
}

struct carried_back {
  numbers x, norm, up, table;
  bool weights_came_last = true;
};

// table[ids] + x through a norm, a contraction with a scaled weight and back, twice.
carried_back run(bool split, bool recompute) {
  carried_back out;
  weft_test::traced_ranks({}, [&](context& ctx, auto) {
    stream x = normal<stream>(ctx, "x", {4, 6}).requires_grad();
    const auto norm = weight_of<vector>(ctx, "norm", {6});
    const auto up = weight_of<matrix>(ctx, "up", {5, 6});
    const auto table = weight_of<tensor<double, dims<vocab, hidden>>>(ctx, "table", {7, 6});
    const auto ids = generate<tensor<std::int32_t, dims<batch>>>(ctx, {4}, [](std::int64_t i) { return i * 3 % 7; });
    const auto block = [&](const auto& h) {
      const auto scaled = scale(up, 0.5);
      return h + contract<ffn>(silu(contract<hidden>(rms_norm(h, norm), scaled)), up);
    };
    auto h = embedding(ids, table) + x;
    for (int i = 0; i < 2; ++i) {
      if (recompute)
        h = checkpoint(block, h);
      else
        h = block(h);
    }
    const auto loss = sum(square(h));
    if (split) {
      detail::seed_loss(loss, 1);
      ctx.tape->backward_inputs(ctx);
      out.weights_came_last = !untyped(norm).slot->has_gradient && !untyped(up).slot->has_gradient &&
                              !untyped(table).slot->has_gradient && untyped(x).slot->has_gradient;
      ctx.tape->backward_weights(ctx);
    } else {
      backward(loss);
    }
    CHECK(ctx.tape->size() == 0);
    out.x = gradient(untyped(x)), out.norm = gradient(untyped(norm)), out.up = gradient(untyped(up)),
    out.table = gradient(untyped(table));
  });
  return out;
}
}  // namespace

TEST_CASE("inputs first and weights later give what one backward gives") {
  for (const bool recompute : {false, true}) {
    CAPTURE(recompute);
    const carried_back whole = run(false, recompute), parts = run(true, recompute);
    CHECK(parts.weights_came_last);
    CHECK(!whole.table.empty());
    CHECK(whole.x == parts.x);
    CHECK(whole.norm == parts.norm);
    CHECK(whole.up == parts.up);
    CHECK(whole.table == parts.table);
  }
}

TEST_CASE("a checkpointed function of a weight itself, in two parts") {
  numbers gradients[2];
  for (const bool split : {false, true})
    weft_test::traced_ranks({}, [&](context& ctx, auto) {
      const stream x = normal<stream>(ctx, "x", {4, 6}).requires_grad();
      const auto w = weight_of<vector>(ctx, "w", {6});
      const auto loss = sum(square(x * checkpoint([](const vector& v) { return exp(square(v)); }, w)));
      if (split) {
        detail::seed_loss(loss, 1);
        ctx.tape->backward_inputs(ctx);
        CHECK(!untyped(w).slot->has_gradient);
        ctx.tape->backward_weights(ctx);
      } else {
        backward(loss);
      }
      gradients[split] = gradient(untyped(w));
    });
  CHECK(!gradients[0].empty());
  CHECK(gradients[0] == gradients[1]);
}
