// How long a recording lives: as long as what was made of it can be backpropagated. Forwards that no backward follows
// keep nothing, however they are written; what can still be backpropagated gives its gradients, whatever was forgotten
// round it.
#include <optional>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;
using rows = tensor<double, dims<batch, hidden>>;
using square_matrix = tensor<double, dims<ffn, hidden>>;
using number = tensor<double, dims<>>;

template <class F>
void alone(F f) {
  launch<strategy<mesh<>>>({}, f);
}
rows of(context& ctx, int i) { return normal<rows>(ctx, "x" + std::to_string(i), {4, 8}); }
number loss_of(const rows& x, const square_matrix& w) { return mean(square(silu(contract<hidden>(x, w)))); }
// The most that is in use while f(i) is called so often, over what is before.
template <class F>
std::size_t most_of(context& ctx, int times, F f) {
  ctx.memory.reset_peaks();
  const std::size_t before = ctx.memory.ledger().total;
  for (int i = 0; i < times; ++i) f(i);
  return ctx.memory.ledger().peak_total - before;
}

}  // namespace

TEST_CASE("forwards that no backward follows take the memory of one") {
  alone([](context& ctx) {
    auto w = normal<square_matrix>(ctx, "w", {8, 8}).requires_grad();
    const auto forward = [&](int i) { CHECK(item(loss_of(of(ctx, i), w)) > 0); };
    const std::size_t one = most_of(ctx, 2, forward), many = most_of(ctx, 300, forward);
    CHECK(many <= one);
    CHECK(ctx.tape->size() < 10);
  });
}

TEST_CASE("a loss that is kept until the next one is there, and a sum of numbers, keep a few recordings") {
  alone([](context& ctx) {
    auto w = normal<square_matrix>(ctx, "w", {8, 8}).requires_grad();
    std::optional<number> last;
    const auto forward = [&](int i) { last = loss_of(of(ctx, i), w); };
    const std::size_t few = most_of(ctx, 100, forward), many = most_of(ctx, 1000, forward);
    CHECK(many <= few);
    CHECK(ctx.tape->size() < 300);
    backward(*last);  // the only one that is left
    auto again = normal<square_matrix>(ctx, "w", {8, 8}).requires_grad();
    backward(loss_of(of(ctx, 999), again));
    CHECK(on_host(w.grad()) == on_host(again.grad()));
    CHECK(ctx.tape->size() == 0);
  });
}

TEST_CASE("what is backpropagated later is right, whatever was forgotten before, beside and after it") {
  alone([](context& ctx) {
    auto w = normal<square_matrix>(ctx, "w", {8, 8}).requires_grad();
    auto v = normal<square_matrix>(ctx, "v", {8, 8}).requires_grad();
    std::optional<number> kept;
    for (int i = 0; i < 400; ++i) {
      auto h = contract<hidden>(of(ctx, i), w);
      const auto aside = sum(exp(h));  // of what is kept, too
      if (i == 130) kept = mean(square(rename<ffn, hidden>(h)));
      if (i == 131) kept = *kept + mean(square(contract<hidden>(of(ctx, i), v)));
      if (i % 7 == 0) h = scale(h, 2);
    }
    backward(*kept);
    const auto of_w = on_host(w.grad()), of_v = on_host(v.grad());
    w.zero_grad(), v.zero_grad();
    backward(mean(square(contract<hidden>(of(ctx, 130), w))) + mean(square(contract<hidden>(of(ctx, 131), v))));
    CHECK(of_w == on_host(w.grad()));
    CHECK(of_v == on_host(v.grad()));
  });
}

TEST_CASE("the gradient of a promoted tensor is summed once, whether an earlier promotion was forgotten or not") {
  using half = tensor<double, dims<ffn, hidden>, shard<ffn, tp>>;
  for (const int forgotten : {0, 1, 200})
    launch<strategy<mesh<tp>>>({.tp = 2}, [&](context& ctx) {
      auto x = full<rows>(ctx, {4, 8}, 3).requires_grad();
      const auto w = full<half>(ctx, {8, 8}, 2);
      const auto forward = [&] {
        const auto h = 2 * x;  // promoted, and made anew each time
        return all_reduce<tp>(sum(contract<hidden>(h, w) + contract<hidden>(h, w)));
      };
      for (int i = 0; i < forgotten; ++i) forward();
      CHECK(ctx.tape->size() <= 2 * 7);
      backward(forward());
      CHECK(on_host(x.grad()) == std::vector<double>(32, 2 * 2 * 8 * 2));
    });
}

TEST_CASE("evaluation of a model under a store: units are forgotten with what they made, and training goes on") {
  using S = strategy<mesh<dp, tp>, zero3, fp64, checkpoint_selective>;
  const auto trained = [](int evaluated) {
    double loss = 0;
    launch<S>({.dp = 2, .tp = 2}, [&](context& ctx) {
      llama<S> model(ctx, {.layers = 2, .hidden = 16, .heads = 2, .vocab = 32, .max_seq = 8});
      parameter_store<typename S::backend, typename S::precision> store(ctx, model.registry(), config_of<zero3>());
      model.use(store);
      using ids = typename llama<S>::ids;
      const auto tokens = generate<ids>(ctx, {4, 8}, [](std::int64_t i) { return 5 * i % 32; });
      const auto forward = [&] { return cross_entropy(model(tokens), tokens); };
      for (int step = 1; step <= 2; ++step) {
        const std::size_t one = most_of(ctx, 2, [&](int) { forward(); });
        CHECK(most_of(ctx, evaluated, [&](int) { forward(); }) <= one);
        CHECK(ctx.tape->size() < 200);
        store.begin_step(1);
        const auto l = forward();
        backward(l.sum);
        store.end_micro_batch();
        store.finish_gradients();
        store.step(adamw{.lr = 1e-2}.at(step, 1e-2, 1.0 / 32));
        const auto [sum, count] = finished<decltype(l.sum)>(ctx, {l.sum.local_share()[0], l.count.local_share()[0]});
        if (ctx.is_first()) loss = sum / count;
      }
      model.release();
    });
    return loss;
  };
  CHECK(trained(1) == trained(20));
}

TEST_CASE("a unit of which something inside is kept, and its output is not, is entered again for that") {
  using S = strategy<mesh<dp>, zero3, fp64>;
  launch<S>({.dp = 2}, [](context& ctx) {
    parameter_registry registry;
    const int unit = registry.begin_unit("all");
    weight<S, dims<ffn, hidden>> w;
    registry.add(ctx, w, "w", {2, {4, 8}}, {0.5});
    parameter_store<cpu_backend, fp64> store(ctx, registry, config_of<zero3>());
    const auto x = full<batch_tensor<S, double, dims<batch, hidden>>>(ctx, {2, 8}, 1);
    using inner = decltype(sum(square(contract<hidden>(x, w))));
    std::optional<inner> aside;
    store.begin_step(1);
    for (int i = 0; i < 100; ++i)
      in_unit(
          ctx, store, unit,
          [&](const auto& h) {
            const auto y = contract<hidden>(h, w);
            if (i == 0) aside = sum(square(y));
            return exp(y);
          },
          x);
    backward(*aside);
    store.end_micro_batch();
    store.finish_gradients();
    CHECK(store.gradient_norm() > 0);
  });
}

TEST_CASE("under no_grad nothing is recorded, and after it everything is") {
  alone([](context& ctx) {
    auto w = normal<square_matrix>(ctx, "w", {8, 8}).requires_grad();
    {
      const no_grad off(ctx);
      const auto loss = loss_of(of(ctx, 0), w);
      CHECK(ctx.tape == nullptr);
      CHECK_THROWS_WITH_AS(backward(loss), doctest::Contains("while a no_grad lives"), failure);
    }
    backward(loss_of(of(ctx, 0), w));
    CHECK(w.has_grad());
  });
}

TEST_CASE("several no_grads that end in any order") {
  alone([](context& ctx) {
    auto w = normal<square_matrix>(ctx, "w", {8, 8}).requires_grad();
    tape* const own = ctx.tape;
    for (const bool reversed : {false, true}) {
      std::optional<no_grad> one(std::in_place, ctx), two(std::in_place, ctx), three(std::in_place, ctx);
      two.reset();
      CHECK(ctx.tape == nullptr);
      reversed ? three.reset() : one.reset();
      CHECK(ctx.tape == nullptr);
      reversed ? one.reset() : three.reset();
      CHECK(ctx.tape == own);
      w.zero_grad();
      backward(loss_of(of(ctx, 0), w));
      CHECK(w.has_grad());
    }
  });
}

TEST_CASE("a no_grad begins and ends on one side of a checkpoint") {
  alone([](context& ctx) {
    auto w = normal<square_matrix>(ctx, "w", {8, 8}).requires_grad();
    tape* const own = ctx.tape;
    std::optional<no_grad> off;
    const auto begins = [&](const auto& h) {
      off.emplace(ctx);
      return square(h);
    };
    CHECK_THROWS_WITH_AS(checkpoint(begins, w), doctest::Contains("let each begin and end on one side"), failure);
    off.reset();
    CHECK(ctx.tape == own);
    backward(loss_of(of(ctx, 0), w));
    CHECK(w.has_grad());
  });
}
