// What operators keep of two inputs: only what the gradient that is wanted is computed from, and the gradient is that
// of a recording in which both are wanted.
#include <vector>

#include <doctest/doctest.h>

#include <weft/autograd/backward.hpp>
#include <weft/autograd/checkpoint.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/contract.hpp>
#include <weft/op/create.hpp>
#include <weft/op/custom_gradient.hpp>
#include <weft/op/reduce.hpp>
#include <weft/op/rms_norm.hpp>

#include "autograd/traced_ranks.hpp"
#include "said_by.hpp"

namespace {
using namespace weft;
using x2 = tensor<double, dims<batch, hidden>>;
using w2 = tensor<double, dims<ffn, hidden>>;
using row = tensor<double, dims<hidden>>;
using numbers = std::vector<double>;

struct scaled {  // x * w, which keeps of each what the other's gradient is computed from
  static constexpr std::string_view name = "scaled";
  template <class X, class W>
  auto forward(const X& x, const W& w) const {
    return std::pair(x * w, std::tuple(wants_gradient(w) ? x : X(), wants_gradient(x) ? w : W()));
  }
  template <class D, class X, class W>
  auto vjp(const D& dy, const X& x, const W& w) const {
    using dw = decltype(sum<batch>(dy * x));
    return std::tuple(was_kept(w) ? dy * w : D(), was_kept(x) ? sum<batch>(dy * x) : dw());
  }
};
struct reads_what_is_not_kept : scaled {
  static constexpr std::string_view name = "reads_what_is_not_kept";
  template <class D, class X, class W>
  auto vjp(const D& dy, const X& x, const W& w) const {
    return std::tuple(dy * w, sum<batch>(dy * x));
  }
};
struct gives_nothing : scaled {
  static constexpr std::string_view name = "gives_nothing";
  template <class D, class X, class W>
  auto vjp(const D&, const X&, const W&) const {
    return std::tuple(D(), row());
  }
};

struct seen {
  int kept = 0;  // arrays
  numbers x, w;
};
// f(x, w), with a gradient asked of one of them or of both.
template <class W, class F>
seen run(F&& f, std::initializer_list<std::int64_t> sizes, bool of_x, bool of_w, bool again, bool in_parts) {
  seen out;
  weft_test::traced_ranks({}, [&](context& ctx, auto) {
    x2 x = normal<x2>(ctx, "x", {3, 4});
    W w = normal<W>(ctx, "w", sizes);
    if (of_x) x.requires_grad();
    if (of_w) w.requires_grad(), untyped(w).slot->of_weights = true;
    const auto y = again ? checkpoint([=](const x2& at) { return f(at, w); }, x) : f(x, w);
    ctx.tape->each_saved([&](const local_array& a) { out.kept += a.data != nullptr; });
    const auto loss = sum(y * normal<std::remove_const_t<decltype(y)>>(ctx, "dy", {3, untyped(y).whole[1]}));
    if (in_parts) {
      detail::seed_loss(loss, 1);
      ctx.tape->backward_inputs(ctx);
      ctx.tape->backward_weights(ctx);
    } else {
      backward(loss);
    }
    const auto share = [](const auto& t) {
      const auto s = t.local_share();
      return numbers(s.begin(), s.end());
    };
    if (of_x) out.x = share(x.grad());
    if (of_w) out.w = share(w.grad());
  });
  return out;
}
// both, only_x, only_w: arrays that are kept where gradients of both are wanted, and of one alone.
template <class W, class F>
void keeps(std::initializer_list<std::int64_t> sizes, int both, int only_x, int only_w, F&& f) {
  const seen all = run<W>(f, sizes, true, true, false, false);
  CHECK(all.kept == both);
  for (const bool again : {false, true})
    for (const bool in_parts : {false, true}) {
      CAPTURE(again);
      CAPTURE(in_parts);
      const seen x = run<W>(f, sizes, true, false, again, in_parts), w = run<W>(f, sizes, false, true, again, in_parts);
      CHECK(x.x == all.x);
      CHECK(w.w == all.w);
      if (again) continue;
      CHECK(x.kept == only_x);
      CHECK(w.kept == only_w);
    }
}
}  // namespace

TEST_CASE("operators keep what a gradient that is wanted is computed from") {
  keeps<w2>({5, 4}, 2, 1, 1, [](const auto& x, const auto& w) { return contract<hidden>(x, w); });
  keeps<row>({4}, 2, 1, 1, [](const auto& x, const auto& w) { return x * w; });
  keeps<row>({4}, 2, 1, 2, [](const auto& x, const auto& w) { return x / w; });
  keeps<row>({4}, 0, 0, 0, [](const auto& x, const auto& w) { return x - w; });
  keeps<row>({4}, 3, 3, 2, [](const auto& x, const auto& w) { return rms_norm(x, w); });
  keeps<row>({4}, 2, 1, 1, [](const auto& x, const auto& w) { return custom_gradient(scaled{}, x, w); });
}

TEST_CASE("what a function with a backward of its own didn't keep it can't read, and owes what is wanted") {
  weft_test::traced_ranks({}, [](context& ctx, auto) {
    const x2 x = normal<x2>(ctx, "x", {3, 4}).requires_grad();
    const row w = normal<row>(ctx, "w", {4});
    const auto y = custom_gradient(reads_what_is_not_kept{}, x, w);
    CHECK(weft_test::said_by([&] { backward(sum(y)); }).find("a tensor that was never made is used") == 0);
    const auto again = custom_gradient(gives_nothing{}, x, w);
    CHECK(weft_test::said_by([&] { backward(sum(again)); }).find("gives_nothing: gradient 0 of its vjp is empty") == 0);
  });
}

TEST_CASE("what isn't kept may be written before the backward") {
  weft_test::traced_ranks({}, [](context& ctx, auto) {
    x2 x = normal<x2>(ctx, "x", {3, 4});
    const row w = normal<row>(ctx, "w", {4}).requires_grad();
    row frozen = normal<row>(ctx, "f", {4});
    const auto y = x * w * frozen;
    frozen.write_local_share([](auto to) { to[0] = 1; });
    CHECK(weft_test::said_by([&] { backward(sum(y)); }).find("was updated or written") != std::string::npos);
    const auto z = w - x * x;  // no gradient of x is asked for
    x.write_local_share([](auto to) { to[0] = 1; });
    backward(sum(z));
    CHECK(w.grad().local_share()[0] == 3);
  });
}
