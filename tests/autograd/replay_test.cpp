// What a checkpoint runs again: exactly the operators whose output was neither kept nor is of no more use. Kernels are
// counted by a backend of the test's own.
#include <doctest/doctest.h>

#include <weft/autograd/backward.hpp>
#include <weft/autograd/checkpoint.hpp>
#include <weft/backend/cpu.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/contract.hpp>
#include <weft/op/create.hpp>
#include <weft/op/elementwise.hpp>
#include <weft/op/reduce.hpp>
#include <weft/op/rms_norm.hpp>

#include "autograd/traced_ranks.hpp"

namespace {
using namespace weft;
using weft_test::traced_ranks;

struct counts {
  int products = 0, norms = 0, unary = 0;
};
thread_local counts counted;

struct counting_backend : cpu_backend {
  template <class... Args>
  static void matmul(Args&&... args) {
    ++counted.products;
    cpu_backend::matmul(std::forward<Args>(args)...);
  }
  template <class... Args>
  static void rms_norm(Args&&... args) {
    ++counted.norms;
    cpu_backend::rms_norm(std::forward<Args>(args)...);
  }
  using cpu_backend::apply;
  template <unary F, class T>
  static void apply(queue& q, std::int64_t n, const T* x, T* y) {
    ++counted.unary;
    cpu_backend::apply<F>(q, n, x, y);
  }
};

template <class D, class... P>
using of = basic_tensor<double, D, place<P...>, counting_backend>;
using row = of<dims<batch, hidden>>;

// What is asked and answered, over all ranks of the test (there is one).
struct contractions_only {
  static constexpr std::string_view name = "contractions";
  static constexpr bool recomputes = true;
  static bool keeps(const op_cost& c) { return c.name == "contract"; }
};

constexpr std::int64_t rows = 8, width = 16, inner = 64;

template <class F>
void alone(F&& f) {
  traced_ranks<counting_backend>({}, [&](context& ctx, auto) { f(ctx); });
}

struct block {
  of<dims<hidden>> scale;
  of<dims<hidden, ffn>> up;
  of<dims<ffn, hidden>> down;
  row operator()(const row& x) const { return x + contract<ffn>(silu(contract<hidden>(rms_norm(x, scale), up)), down); }
};
block make_block(context& ctx) {
  block b{normal<of<dims<hidden>>>(ctx, "scale", {width}), normal<of<dims<hidden, ffn>>>(ctx, "up", {width, inner}),
          normal<of<dims<ffn, hidden>>>(ctx, "down", {inner, width})};
  b.scale.requires_grad(), b.up.requires_grad(), b.down.requires_grad();
  return b;
}

std::size_t activations(const context& ctx) { return ctx.memory.ledger().current[std::size_t(memory::activations)]; }

struct run {
  counts forward, backward;
  std::size_t kept;  // bytes between forward and backward, the output's left out
  std::vector<double> gradients;
};
template <class Apply>
run trial(context& ctx, Apply&& apply) {
  const block b = make_block(ctx);
  auto x = normal<row>(ctx, "x", {rows, width}).requires_grad();
  counted = {};
  run out;
  const std::size_t before = activations(ctx);
  const row y = apply(b, x);
  out.forward = std::exchange(counted, {});
  out.kept = activations(ctx) - before - std::size_t(untyped(y).data.bytes());
  backward(sum(square(y)));
  out.backward = counted;
  for (const value& leaf : {untyped(x), untyped(b.scale), untyped(b.up), untyped(b.down)}) {
    const auto* g = leaf.slot->gradient.as<double>();
    out.gradients.insert(out.gradients.end(), g, g + leaf.slot->gradient.elements());
  }
  return out;
}
}  // namespace

TEST_CASE("what is kept and what is of no use isn't run again") {
  alone([](context& ctx) {
    const run plain = trial(ctx, [](const block& b, const row& x) { return b(x); });
    const run full = trial(ctx, [](const block& b, const row& x) { return checkpoint(b, x); });
    const run some = trial(ctx, [](const block& b, const row& x) { return checkpoint<contractions_only>(b, x); });
    CHECK(full.gradients == plain.gradients);
    CHECK(some.gradients == plain.gradients);

    CHECK((plain.forward.products == 2 && full.forward.products == 2 && some.forward.products == 2));
    CHECK(plain.backward.products == 4);
    CHECK(full.backward.products == 4 + 1);  // not `down`: nobody looks at what it or the sum made
    CHECK(some.backward.products == 4);
    CHECK((plain.backward.norms == 0 && full.backward.norms == 1 && some.backward.norms == 1));
    CHECK((full.backward.unary == plain.backward.unary + 1 && some.backward.unary == full.backward.unary));

    constexpr std::size_t one = sizeof(double) * rows;
    CHECK(plain.kept == one * (width + inner + inner + 1));  // normed, up, silu of it, the norms' rstd
    CHECK(full.kept == 0);                                   // x is the caller's
    CHECK(some.kept == one * inner);                         // up; what `down` made is let go of
  });
}

namespace {
struct everything {
  static constexpr std::string_view name = "everything";
  static constexpr bool recomputes = true;
  static bool keeps(const op_cost&) { return true; }
};
// An operator that says nothing of itself but what its backward needs.
row doubled(const row& x) {
  value y{untyped(x).ctx, untyped(x).whole, untyped(x).ctx->make(dtype::f64, untyped(x).held().shape), {}};
  for (std::int64_t i = 0; i < y.data.elements(); ++i) y.data.as<double>()[i] = 2 * untyped(x).held().as<double>()[i];
  detail::record(
      "doubled", y,
      [](context& ctx, tape_node& node) {
        const gradient_target to = detail::target<counting_backend>(ctx, node, 0);
        for (std::int64_t i = 0; i < to.to.elements(); ++i)
          to.to.as<double>()[i] = 2 * node.output_gradient().as<double>()[i] + (to.add ? to.to.as<double>()[i] : 0);
      },
      x);
  return row(y);
}
}  // namespace

TEST_CASE("operators that declare no cost run again, and find their inputs") {
  alone([](context& ctx) {
    const auto of = [](const block& b, const row& x) {
      const row h = contract<ffn>(contract<hidden>(x, b.up), b.down);
      return b(doubled(h) + scale(h, 0.5));  // the sum is kept, and so alone would leave h unused
    };
    const run plain = trial(ctx, of);
    const run kept = trial(ctx, [&](const block& b, const row& x) {
      return checkpoint<everything>([&](const row& h) { return of(b, h); }, x);
    });
    const run some = trial(ctx, [&](const block& b, const row& x) {
      return checkpoint<contractions_only>([&](const row& h) { return of(b, h); }, x);
    });
    CHECK(kept.gradients == plain.gradients);
    CHECK(some.gradients == plain.gradients);
    CHECK((kept.backward.norms == 0 && kept.backward.products == plain.backward.products &&
           kept.backward.unary == plain.backward.unary));
  });
}

TEST_CASE("checkpoints within a checkpoint, each with its policy") {
  alone([](context& ctx) {
    const run plain = trial(ctx, [](const block& b, const row& x) { return b(b(square(x)) * x); });
    const auto nested = [](auto inner_of, auto outer_of) {
      return [=](const block& b, const row& x) {
        return checkpoint<decltype(outer_of)>(
            [b](const row& h) {
              const row s = square(h);  // of use to the inner one alone
              const row t = b(s);
              return checkpoint<decltype(inner_of)>([b, t](const row& g) { return b(t * g); }, h);
            },
            x);
      };
    };
    const auto close = [&](const run& r) {
      REQUIRE(r.gradients.size() == plain.gradients.size());
      // The weights' two gradients are added in another order: a few roundings of 1e-16 on sums of up to 1e6.
      for (std::size_t i = 0; i < r.gradients.size(); ++i)
        CHECK(r.gradients[i] == doctest::Approx(plain.gradients[i]).epsilon(1e-9));
    };
    close(trial(ctx, nested(checkpoint_full{}, checkpoint_full{})));
    close(trial(ctx, nested(contractions_only{}, checkpoint_full{})));
    close(trial(ctx, nested(contractions_only{}, everything{})));
    close(trial(ctx, nested(everything{}, contractions_only{})));
  });
}

TEST_CASE("a function that does something else the second time is refused") {
  alone([](context& ctx) {
    auto x = normal<row>(ctx, "x", {rows, width}).requires_grad();
    int runs = 0;
    const auto l = sum(checkpoint([&](const row& h) { return ++runs == 1 ? square(exp(h)) : h * h; }, x));
    CHECK_THROWS_WITH_AS(backward(l), doctest::Contains("the same both times"), weft::failure);
  });
}

TEST_CASE("sums over ranks are kept, gathers run again") {
  traced_ranks({.tp = 4}, [](context& ctx, auto count) {
    using cut = tensor<double, dims<seq, hidden>, shard<seq, tp>>;
    const auto down = normal<tensor<double, dims<ffn, hidden>, shard<ffn, tp>>>(ctx, "down", {64, 8}).requires_grad();
    const auto up = normal<tensor<double, dims<ffn, hidden>, shard<ffn, tp>>>(ctx, "up", {64, 8}).requires_grad();
    auto x = normal<cut>(ctx, "x", {16, 8}).requires_grad();
    const auto half = [=](const cut& h) {
      return reduce_scatter<seq, tp>(contract<ffn>(silu(contract<hidden>(all_gather<tp>(h), up)), down));
    };
    const auto both = [=](const cut& h) { return half(square(half(h))); };
    const auto l = sum(checkpoint<checkpoint_selective>(both, x));
    const int gathers = count("all_gather", "tp"), scatters = count("reduce_scatter", "tp");
    REQUIRE((gathers == 2 && scatters == 2));
    backward(l);
    CHECK(count("all_gather", "tp") - gathers == 2 + 2);   // both again, and the two scatters' backward
    CHECK(count("reduce_scatter", "tp") - scatters == 2);  // the gathers' backward alone
  });
}
