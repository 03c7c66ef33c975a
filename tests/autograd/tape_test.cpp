// The tape: gradients add up where a value is used twice or backward runs twice, never where somebody else reads them;
// leaves, scalars, errors.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/autograd/backward.hpp>
#include <weft/autograd/checkpoint.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/attention.hpp>
#include <weft/op/contract.hpp>
#include <weft/op/create.hpp>
#include <weft/op/cross_entropy.hpp>
#include <weft/op/elementwise.hpp>
#include <weft/op/embedding.hpp>
#include <weft/op/reduce.hpp>
#include <weft/op/rms_norm.hpp>
#include <weft/op/swiglu.hpp>
#include <weft/op/to_host.hpp>
#include <weft/op/view.hpp>

#include "traced_ranks.hpp"

namespace {

using namespace weft;
using weft_test::traced_ranks;
using row = tensor<double, dims<hidden>>;
using matrix = tensor<double, dims<batch, hidden>>;

template <class F>
void alone(F f) {
  traced_ranks({}, [&](context& ctx, auto) { f(ctx); });
}
template <class X>
context& ctx_of(const X& x) {
  return *x.ctx;
}
double first(const row& x) { return x.local_share()[0]; }

TEST_CASE("a value used many times gets the sum of its gradients") {
  alone([](context& ctx) {
    row x = full<row>(ctx, {3}, 5).requires_grad();
    const auto y = x + x;          // 2x
    const auto z = y * x - y + y;  // 2x^2
    backward(sum(z));
    CHECK(first(x.grad()) == 4 * 5);
  });
}

TEST_CASE("gradients of several backwards add up until they are cleared") {
  alone([](context& ctx) {
    row x = full<row>(ctx, {3}, 5).requires_grad();
    for (int i = 1; i <= 3; ++i) {
      backward(sum(square(x)), 0.5);
      CHECK(first(x.grad()) == 5 * i);
      CHECK(ctx.tape->size() == 0);
    }
    x.zero_grad();
    CHECK(!x.has_grad());
    backward(sum(square(x)));
    CHECK(first(x.grad()) == 10);
  });
}

TEST_CASE("two leaves that got one gradient without a copy stay apart, also after they are cleared") {
  alone([](context& ctx) {
    row a = ones<row>(ctx, {3}).requires_grad(), b = ones<row>(ctx, {3}).requires_grad();
    backward(sum(a + b));  // both may share one buffer now
    backward(sum(scale(a, 2)));
    CHECK(first(a.grad()) == 3);
    CHECK(first(b.grad()) == 1);
    a.zero_grad(), b.zero_grad();
    backward(sum(a + b));
    a.zero_grad(), b.zero_grad();
    backward(sum(scale(a, 2)) + sum(scale(b, 7)));  // each overwrites its own
    CHECK(first(a.grad()) == 2);
    CHECK(first(b.grad()) == 7);
  });
}

TEST_CASE("a gradient that somebody keeps doesn't change under him") {
  alone([](context& ctx) {
    row a = ones<row>(ctx, {3}).requires_grad();
    backward(sum(scale(a, 2)));
    const row kept = a.grad();
    backward(sum(scale(a, 5)));
    CHECK(first(kept) == 2);
    CHECK(first(a.grad()) == 7);
    a.zero_grad();
    backward(sum(scale(a, 9)));
    CHECK(first(kept) == 2);
    CHECK(first(a.grad()) == 9);
  });
}

TEST_CASE("only what wants a gradient is recorded, and only what the loss needs is backpropagated") {
  alone([](context& ctx) {
    row x = ones<row>(ctx, {3}), w = ones<row>(ctx, {3}).requires_grad(), unused = ones<row>(ctx, {3}).requires_grad();
    CHECK(!untyped(x * x).slot);
    CHECK(ctx.tape->size() == 0);
    const auto aside = exp(unused);
    backward(sum(x * w));
    CHECK(w.has_grad());
    CHECK(!unused.has_grad());
    CHECK(!x.has_grad());
    CHECK(ctx.tape->size() == 0);
  });
}

TEST_CASE("after backward the activations are gone") {
  alone([](context& ctx) {
    matrix w = ones<matrix>(ctx, {64, 64}).requires_grad();
    const auto before = ctx.memory.ledger().total;
    { backward(sum(silu(exp(w)) * w)); }
    CHECK(ctx.memory.ledger().total == before + 64 * 64 * 8);  // the gradient stays
    const auto peak = ctx.memory.ledger().peak_total;
    for (int i = 0; i < 5; ++i) {
      w.zero_grad();
      backward(sum(silu(exp(w)) * w));
    }
    CHECK(ctx.memory.ledger().total == before + 64 * 64 * 8);
    CHECK(ctx.memory.ledger().peak_total <= peak + 64 * 64 * 8);  // the gradient is there from the start now
    CHECK(ctx.memory.ledger().chunks == 1);
  });
}

TEST_CASE("misuse is an error that says what to do") {
  alone([](context& ctx) {
    row x = ones<row>(ctx, {3});
    CHECK_THROWS_WITH_AS(x.grad(), doctest::Contains("call requires_grad() before it is used"), weft::failure);
    const auto loss = sum(x);
    CHECK_THROWS_WITH_AS(backward(loss), doctest::Contains("asked for a gradient"), weft::failure);
    x.requires_grad();
    CHECK_THROWS_WITH_AS(x.grad(), doctest::Contains("the tensor has no gradient"), weft::failure);
    const auto good = sum(x);
    tape* own = std::exchange(ctx.tape, nullptr);
    CHECK_THROWS_WITH_AS(backward(good), doctest::Contains("while a no_grad lives"), weft::failure);
    ctx.tape = own;
    CHECK_THROWS_WITH_AS((contract<hidden>(x, ones<row>(ctx, {4}))),
                         doctest::Contains("dimension hidden has 3 elements on one side and 4"), weft::failure);
    CHECK_THROWS_WITH_AS((slice<hidden>(x, 2, 2)),
                         doctest::Contains("slice of dimension hidden from 2 with 2 elements lies outside its 3"),
                         weft::failure);
  });
}

TEST_CASE("a loss whose recording is gone is refused, not taken for a constant") {
  alone([](context& ctx) {
    row x = ones<row>(ctx, {3}).requires_grad();
    const auto trunk = square(x);
    const auto one = sum(trunk), two = sum(scale(trunk, 2));
    backward(one);
    CHECK_THROWS_WITH_AS(backward(one), doctest::Contains("add losses up"), weft::failure);
    CHECK_THROWS_WITH_AS(backward(two), doctest::Contains("add losses up"), weft::failure);
    tape other;
    const recording elsewhere(ctx, &other);
    const auto three = sum(checkpoint([](const row& h) { return square(h); }, x));
    {
      tape third;
      const recording inside(ctx, &third);
      CHECK_THROWS_WITH_AS(backward(three), doctest::Contains("no longer recorded"), weft::failure);
    }
    x.zero_grad();
    backward(three);
    CHECK(first(x.grad()) == 2);
  });
}

TEST_CASE("a backward that throws leaves an empty tape that records on") {
  alone([](context& ctx) {
    row x = full<row>(ctx, {3}, 5).requires_grad();
    tape* const own = ctx.tape;
    bool told = false;
    const auto f = [&](const row& h) {
      if (std::exchange(told, true)) fail("the second run");
      return square(h);
    };
    const row early = checkpoint(f, x);
    const auto loss = sum(early + square(x));  // whose part of the gradient comes first
    CHECK_THROWS_WITH_AS(backward(loss), "the second run", weft::failure);
    CHECK(ctx.tape == own);
    CHECK(ctx.tape->size() == 0);
    const auto part = doctest::Contains("what a backward that ended with an error left of it: zero_grad() drops it");
    CHECK_THROWS_WITH_AS(x.grad(), part, weft::failure);
    CHECK_THROWS_WITH_AS(backward(sum(square(x))), part, weft::failure);  // would add to it
    x.zero_grad();
    backward(sum(square(x)));
    CHECK(first(x.grad()) == 10);
    backward(sum(square(x)));
    CHECK(first(x.grad()) == 20);
  });
}

TEST_CASE("a checkpointed function of constants contributes nothing, and is no error") {
  alone([](context& ctx) {
    row c = ones<row>(ctx, {3}), x = ones<row>(ctx, {3}).requires_grad();
    backward(sum(checkpoint([](const row& h) { return square(h); }, c) * x));
    CHECK(first(x.grad()) == 1);
    CHECK(!c.has_grad());
  });
}

// A parameter's gradient is kept in the policy's type; operators whose kernels write several gradients at once have to
// see it.
TEST_CASE("gradients kept in another type than the value's") {
  alone([](context& ctx) {
    using half = tensor<bf16, dims<batch, hidden>>;
    using half_row = tensor<bf16, dims<hidden>>;
    using four = tensor<bf16, dims<batch, seq, heads, head_dim>>;
    // Every input's gradient is kept in type G; all gradients one after another, as doubles.
    const auto gradients_of = [&]<class G>(G, auto f, auto... inputs) {
      (detail::keep_gradient_in<cpu_backend, G, bf16>(*untyped(inputs.requires_grad()).slot), ...);
      backward(sum(cast<float>(f(inputs...))));
      std::vector<double> out;
      const auto add = [&](const local_array& g) {
        REQUIRE(g.type == dtype_of<G>);
        for (std::int64_t i = 0; i < g.elements(); ++i)
          out.push_back(static_cast<double>(static_cast<accumulate_t<G>>(g.as<G>()[i])));
      };
      (add(untyped(inputs).slot->gradient), ...);
      return out;
    };
    // 2^-7: one rounding to bf16 more on one side than on the other, of gradients no larger than 4.
    const auto same = [&](auto f, auto... inputs) {
      const auto own = gradients_of(bf16(), f, inputs...);
      for (const auto& other : {gradients_of(float(), f, inputs...), gradients_of(double(), f, inputs...)}) {
        REQUIRE(own.size() == other.size());
        double largest = 0;
        for (std::size_t i = 0; i < own.size(); ++i) {
          CHECK(std::abs(own[i] - other[i]) <= 4.0 / 128);
          largest = std::max(largest, std::abs(other[i]));
        }
        CHECK(largest > 0.1);
        CHECK(largest < 4);
      }
    };
    const auto x = normal<half>(ctx, "x", {3, 8}), y = normal<half>(ctx, "y", {3, 8});
    same([](const half& a, const half& b) { return swiglu(a, b); }, x, y);
    same([](const half& a) { return swiglu(a, a); }, x);
    same([](const half& a, const half_row& b) { return rms_norm(a, b); }, x, ones<half_row>(ctx, {8}));
    same([](const half& a) { return slice<hidden>(a, 0, 5) + slice<hidden>(a, 3, 5); }, x);
    same([](const half& a) { return embedding(full<tensor<std::int32_t, dims<seq>>>(*untyped(a).ctx, {2}, 1), a); }, x);
    const auto q = normal<four>(ctx, "q", {1, 4, 2, 8}, 0.5), k = normal<four>(ctx, "k", {1, 4, 2, 8}, 0.5),
               v = normal<four>(ctx, "v", {1, 4, 2, 8}, 0.5);
    same([](const four& a, const four& b, const four& c) { return attention(a, b, c); }, q, k, v);
    same([](const four& a) { return attention(a, a, a); }, q);
  });
}

TEST_CASE("bug: a 16-bit bias's gradient is rounded, or overflows, on its way to an fp32 main gradient") {
  alone([](context& ctx) {
    const auto x = ones<tensor<fp16, dims<batch, heads, hidden>>>(ctx, {2047, 2, 3});
    auto bias = ones<tensor<fp16, dims<hidden>>>(ctx, {3}).requires_grad();
    auto turned = ones<tensor<fp16, dims<hidden, heads>>>(ctx, {3, 2}).requires_grad();
    auto positions = ones<tensor<fp16, dims<seq, hidden>>>(ctx, {4, 3}).requires_grad();
    for (slot* s : {untyped(bias).slot.get(), untyped(turned).slot.get(), untyped(positions).slot.get()})
      detail::keep_gradient_in<cpu_backend, float, fp16>(*s);
    const auto first = permute<heads, hidden>(rename<seq, heads>(slice<seq>(positions, 0, 2)));
    backward(sum(cast<float>(((x + bias) + turned) + first)), 65);
    for (int i = 0; i < 3; ++i)
      CHECK(untyped(bias).slot->gradient.as<float>()[i] == 2 * 2047 * 65);  // beyond fp16's 65504
    for (int i = 0; i < 6; ++i)
      CHECK(untyped(turned).slot->gradient.as<float>()[i] == 2047 * 65);  // and odd, with more bits than its 11
    for (int i = 0; i < 12; ++i)
      CHECK(untyped(positions).slot->gradient.as<float>()[i] == (i < 6 ? 2047 * 65 : 0));  // through views
  });
}

TEST_CASE("a cast's gradient is not rounded to 16 bits on its way to a wider main gradient") {
  alone([](context& ctx) {
    auto w = ones<tensor<fp16, dims<hidden>>>(ctx, {3}).requires_grad();
    auto v = ones<tensor<bf16, dims<hidden>>>(ctx, {3}).requires_grad();
    detail::keep_gradient_in<cpu_backend, float, fp16>(*untyped(w).slot);
    detail::keep_gradient_in<cpu_backend, double, bf16>(*untyped(v).slot);
    for (int times = 1; times <= 2; ++times) {
      backward(sum(cast<double>(w)), 100001);
      backward(sum(cast<float>(v)), 100001);
      for (int i = 0; i < 3; ++i) {
        CHECK(untyped(w).slot->gradient.as<float>()[i] == static_cast<float>(100001 * times));
        CHECK(untyped(v).slot->gradient.as<double>()[i] == 100001.0 * times);
      }
    }
  });
}

TEST_CASE("integers are cast to floats, rounded once, and have no gradient") {
  alone([](context& ctx) {
    const auto numbers_of = [&]<class From, class To>(const std::vector<From>& numbers) {
      const auto n = static_cast<std::int64_t>(numbers.size());
      return on_host(cast<To>(from_global<tensor<From, dims<hidden>>>(ctx, {n}, numbers)));
    };
    const std::vector<std::int32_t> ints{-3, 0, 16777217};
    CHECK(numbers_of.operator()<std::int32_t, double>(ints) == std::vector<double>{-3, 0, 16777217});
    CHECK(numbers_of.operator()<std::int32_t, float>(ints) == std::vector<float>{-3, 0, 16777216});
    CHECK(numbers_of.operator()<std::int64_t, fp16>({-2, 70000})[1] == fp16::from_bits(0x7c00));
    CHECK(numbers_of.operator()<std::uint8_t, bf16>({1, 255})[1] == bf16(255));
    auto w = ones<tensor<float, dims<hidden>>>(ctx, {3}).requires_grad();
    const std::uint8_t mask[] = {1, 0, 1};
    backward(sum(cast<float>(from_global<tensor<std::uint8_t, dims<hidden>>>(ctx, {3}, mask)) * w));
    CHECK(on_host(w.grad()) == std::vector<float>{1, 0, 1});
  });
}

TEST_CASE("logits that are a parameter are not written over") {
  alone([](context& ctx) {
    matrix x = normal<matrix>(ctx, "x", {2, 4});
    const auto ids = zeros<tensor<std::int32_t, dims<batch>>>(ctx, {2});
    const auto gradient_of = [&](matrix& logits) {
      backward(cross_entropy(logits, ids).sum);
      return on_host(logits.grad());
    };
    matrix leaf = x;
    const auto expected = gradient_of(leaf.requires_grad());
    matrix parameter = x;  // as a parameter store leaves it: the value lies elsewhere
    const auto before = on_host(x);
    untyped(parameter.requires_grad()).slot->live = ref<weight_place>(new weight_place);
    untyped(parameter).slot->live->at = local_array(untyped(x).data.data, dtype::f64, untyped(x).data.shape);
    untyped(parameter).data = local_array(nullptr, dtype::f64, untyped(x).data.shape);
    CHECK(gradient_of(parameter) == expected);
    CHECK(on_host(x) == before);
  });
}

// A checkpointed block computes the same numbers, bit for bit, and keeps less. (A weight shared by several checkpointed
// blocks is promoted once in each, so that its gradient is summed over ranks and over blocks in another order.)
TEST_CASE("checkpoint equals no checkpoint, bit for bit") {
  for (int tp_degree : {1, 2, 4})
    traced_ranks({.dp = 2, .tp = tp_degree}, [](context& ctx, auto) {
      using x_type = tensor<float, dims<batch, hidden>, shard<batch, dp>>;
      using up_type = tensor<float, dims<hidden, ffn>, shard<ffn, tp>>;
      using down_type = tensor<float, dims<ffn, hidden>, shard<ffn, tp>>;
      const auto run = [&](bool recompute, std::vector<float>& out, std::size_t& peak) {
        auto x = normal<x_type>(ctx, "x", {32, 16}).requires_grad();
        std::vector<up_type> ups;
        std::vector<down_type> downs;
        for (int layer = 0; layer < 4; ++layer) {
          ups.push_back(normal<up_type>(ctx, "up" + std::to_string(layer), {16, 256}, 0.2).requires_grad());
          downs.push_back(normal<down_type>(ctx, "down" + std::to_string(layer), {256, 16}, 0.2).requires_grad());
        }
        ctx.memory.reset_peaks();
        x_type h = x;
        for (std::size_t layer = 0; layer < 4; ++layer) {
          const auto block = [up = ups[layer], down = downs[layer]](const x_type& in) {
            return in + all_reduce<tp>(contract<ffn>(silu(contract<hidden>(in, up)), down));
          };
          h = recompute ? checkpoint(block, h) : block(h);
        }
        const auto loss = mean(square(h));
        backward(loss);
        peak = ctx.memory.ledger().peak_total;
        out.push_back(loss.local_share()[0]);
        const auto keep = [&](const auto& g) {
          const auto own = g.local_share();
          out.insert(out.end(), own.begin(), own.end());
        };
        keep(x.grad());
        for (std::size_t layer = 0; layer < 4; ++layer) keep(ups[layer].grad()), keep(downs[layer].grad());
      };
      std::vector<float> plain, again;
      std::size_t plain_peak = 0, again_peak = 0;
      run(false, plain, plain_peak);
      run(true, again, again_peak);
      require(plain == again, "recomputation changed a number");
      require(again_peak < plain_peak, "recomputation kept ", again_peak, " bytes and plain running ", plain_peak);
    });
}

TEST_CASE("checkpoint runs the function once where nothing is recorded, and twice where it is") {
  alone([](context& ctx) {
    int runs = 0;
    const auto f = [&](const row& x) { return ++runs, square(x); };
    row x = full<row>(ctx, {3}, 3).requires_grad();
    {
      const recording off(ctx, nullptr);
      checkpoint(f, x);
      CHECK(runs == 1);
    }
    const auto loss = sum(checkpoint(f, x));
    CHECK(runs == 2);
    backward(loss);
    CHECK(runs == 3);
    CHECK(first(x.grad()) == 6);
  });
}

}  // namespace

TEST_CASE("an operator's output keeps no gradient, and says how to read one") {
  launch<strategy<mesh<>, single_rank>>({}, [](context& ctx) {
    using row = tensor<float, dims<hidden>>;
    auto x = ones<row>(ctx, {3}).requires_grad();
    auto y = (x * 2).requires_grad();
    backward(sum(square(y)));
    CHECK_THROWS_WITH_AS(y.grad(), doctest::Contains("it is an operator's output, of which backward(loss) keeps none"),
                         failure);
    // as it says
    auto e = zeros<row>(ctx, {3}).requires_grad();
    backward(sum(square(x * 2 + e)));
    CHECK(on_host(e.grad())[0] == 4);
    auto alone = detach(x * 2).requires_grad();
    backward(sum(square(alone)));
    CHECK(on_host(alone.grad())[0] == 4);
    const auto never = ones<row>(ctx, {3});
    CHECK_THROWS_WITH_AS(never.grad(), doctest::Contains("call requires_grad() before it is used"), failure);
  });
}
