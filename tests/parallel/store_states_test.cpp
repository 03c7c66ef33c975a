// A parameter store's calls out of their order, weights outside of their units, and errors in the middle of a step:
// each is refused in a sentence or made good by the next step, under every sharding policy; none is silently another
// number.
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;
using numbers = std::vector<float>;

// Three units of one weight each, on two ranks; h -> h * w, a unit after the other.
template <class S>
struct three_units {
  using x_type = tensor<float, dims<batch, hidden>, shard<batch, dp>>;
  using store_type = parameter_store<cpu_backend, fp32>;
  context& ctx;
  parameter_registry registry;
  weight<S, dims<hidden>> w[3];

  explicit three_units(context& on) : ctx(on) {
    for (int u = 0; u < 3; ++u) {
      registry.begin_unit("unit " + std::to_string(u));
      registry.add(ctx, w[u], "gain " + std::to_string(u), {1, {40}}, {0.5, 1});
    }
  }
  static store_config config() { return config_of<typename S::sharding>(); }
  x_type input() const { return normal<x_type>(ctx, "x", {4, 40}); }
  // f(unit, h) before each unit's product.
  template <class F>
  auto loss(store_type& store, F&& f) {
    x_type h = input();
    for (int u = 0; u < 3; ++u)
      h = in_unit(
          ctx, store, u,
          [&](const x_type& in) -> x_type {
            f(u, in);
            return in * w[u];
          },
          h);
    return sum(square(h));
  }
  auto loss(store_type& store) {
    return loss(store, [](int, const x_type&) {});
  }
  numbers gradients(store_type& store) const {
    numbers out;
    store.each_parameter([&](const parameter_record&, auto g, auto) { out.insert(out.end(), g.begin(), g.end()); });
    return out;
  }
  numbers step(store_type& store) {
    store.begin_step(1);
    backward(loss(store));
    store.end_micro_batch();
    store.finish_gradients();
    return gradients(store);
  }
};

template <class S, class F>
void on_two(F&& f) {
  launch<S>({.dp = 2}, [&](context& ctx) {
    three_units<S> model(ctx);
    typename three_units<S>::store_type store(ctx, model.registry, model.config());
    f(ctx, model, store);
  });
}
template <class F>
void every_policy(F&& f) {
  on_two<strategy<mesh<dp>, replicated>>(f);
  on_two<strategy<mesh<dp>, zero1>>(f);
  on_two<strategy<mesh<dp>, zero2>>(f);
  on_two<strategy<mesh<dp>, zero3>>(f);
}

// What a thrown sentence is held to. On all ranks alike, so that no rank waits for another.
template <class F>
void refuses(F&& f, const char* part) {
  CHECK_THROWS_WITH_AS(f(), doctest::Contains(part), failure);
}
}  // namespace

TEST_CASE("bug: the norm of gradients that are not summed yet is this rank's own") {
  every_policy([](context& ctx, auto& model, auto& store) {
    const auto read = [](auto&&...) {};
    const adamw_step some = adamw{}.at(1, 1e-3);
    CHECK(store.gradient_norm() == 0);                                // none were asked for
    refuses([&] { store.step(some); }, "step(): no step has begun");  // weights would decay
    refuses([&] { store.finish_gradients(); }, "begin_step(micro_batches)");
    refuses([&] { store.end_micro_batch(); }, "begin_step(micro_batches)");
    refuses([&] { store.begin_step(0); }, "at least 1 micro-batch");
    store.begin_step(2);
    for (int micro = 0; micro < 2; ++micro) {
      refuses([&] { store.gradient_norm(); }, "gradient_norm(): the gradients are not summed over ranks yet");
      refuses([&] { store.step(some); }, "step(): the gradients are not summed over ranks yet");
      refuses([&] { store.each_stored(read); }, "each_stored(): the gradients");
      refuses([&] { store.each_parameter(read); }, "each_parameter(): the gradients");
      refuses([&] { store.finish_gradients(); }, "begun for 2 micro-batches, and");
      backward(model.loss(store));
      store.end_micro_batch();
    }
    refuses([&] { store.end_micro_batch(); }, "more often than begin_step() was told");
    store.finish_gradients();
    const double norm = store.gradient_norm();
    CHECK(norm > 0);
    refuses([&] { store.finish_gradients(); }, "would be summed again");
    refuses([&] { backward(model.loss(store)); }, "comes outside of a step");
    CHECK(store.gradient_norm() == norm);
    store.step(some);
    CHECK(model.step(store).size() == 120);
    CHECK(ctx.tape->size() == 0);
  });
}

TEST_CASE("a backward more than the step was begun for is refused, whatever the policy") {
  every_policy([](context&, auto& model, auto& store) {
    for (const bool ended : {false, true}) {
      store.begin_step(1);
      backward(model.loss(store));
      if (ended) store.end_micro_batch();
      refuses([&] { backward(model.loss(store)); }, "are complete: the step was begun for 1 micro-batches");
    }
    CHECK(model.step(store).size() == 120);
  });
}

TEST_CASE("a step's gradients are used up by its update, and are the store's alone") {
  every_policy([](context&, auto& model, auto& store) {
    const adamw_step some = adamw{}.at(1, 1e-3);
    model.step(store);
    store.step(some);
    CHECK(store.gradient_norm() > 0);  // to be read
    refuses([&] { store.step(some); }, "an update has used this step's gradients up");
    refuses([&] { model.w[0].zero_grad(); }, "begin_step(micro_batches) in place of zero_grad()");
    refuses([&] { model.w[0].grad(); }, "read it with each_parameter");
    model.step(store);
    store.step(some);
  });
}

TEST_CASE("a checkpointed function, which runs twice, leaves the store's steps to others") {
  every_policy([](context&, auto& model, auto& store) {
    const numbers expected = model.step(store);
    auto x = model.input();
    x.requires_grad();
    const auto in_it = [&](auto&& f) {
      refuses([&] { checkpoint([&](const auto& h) { return f(), square(h); }, x); }, "a checkpointed function runs");
    };
    in_it([&] { store.step(adamw{}.at(1, 1e-3)); });
    in_it([&] { store.begin_step(1); });
    in_it([&] { store.end_micro_batch(); });
    in_it([&] { store.finish_gradients(); });
    in_it([&] { store.load_parameters([](const parameter_record&) { return std::optional<numbers>(); }); });
    CHECK(model.gradients(store) == expected);
  });
}

TEST_CASE("a registered weight that is assigned to") {
  every_policy([](context& ctx, auto& model, auto& store) {
    model.step(store);
    const auto kept = model.w[1];
    model.w[1] = full<std::remove_const_t<decltype(kept)>>(ctx, {40}, 1);
    model.step(store);  // `kept` is there yet
    model.w[1] = kept;
    model.step(store);
    model.w[2] = {};
    refuses([&] { store.begin_step(1); }, "parameter gain 2 has no tensor any more");
  });
}

TEST_CASE("a micro-batch without its backward, or whose backward ended with an error, is not counted") {
  every_policy([](context&, auto& model, auto& store) {
    const numbers expected = model.step(store);
    store.begin_step(2);
    { const auto forgotten = model.loss(store); }
    refuses([&] { store.end_micro_batch(); }, "micro-batch 1 of 2 ends without a backward");
    backward(model.loss(store));
    store.end_micro_batch();
    refuses([&] { store.end_micro_batch(); }, "micro-batch 2 of 2 ends without a backward");
    bool again = false;
    auto leaf = model.input();
    leaf.requires_grad();
    const auto ends = [&](const auto& h) {
      if (std::exchange(again, true)) fail("in the second run");
      return square(h);
    };
    refuses([&] { backward(model.loss(store) + sum(checkpoint(ends, leaf))); }, "in the second run");
    store.end_micro_batch();
    refuses([&] { store.finish_gradients(); }, "the step's backward ended with an error");
    CHECK(model.step(store) == expected);
  });
}

TEST_CASE("bug: a weight outside of its unit is added to while its sum is under way") {
  every_policy([](context& ctx, auto& model, auto& store) {
    const numbers expected = model.step(store);
    const auto x = model.input();
    const auto outside = [&] {
      refuses([&] { return x * model.w[1]; }, "parameter gain 1 is read outside of its unit");
    };
    outside();
    store.step(adamw{}.at(1, 0));
    outside();  // where new weights are on their way
    store.begin_step(1);
    const auto loss = model.loss(store, [&](int unit, const auto&) {
      if (unit == 0) outside();  // inside of another one
    });
    backward(loss);
    outside();
    store.end_micro_batch();
    store.finish_gradients();
    CHECK(model.gradients(store) == expected);
    outside();
    CHECK(ctx.tape->size() == 0);
  });
}

TEST_CASE("a weight that leaves its unit by the way of its function is still refused") {
  every_policy([](context& ctx, auto& model, auto& store) {
    store.begin_step(1);
    const auto w = in_unit(
        ctx, store, 0, [&](const auto&) { return model.w[0]; }, model.input());
    refuses([&] { return square(w); }, "parameter gain 0 is read outside of its unit");
    const auto squared = in_unit(
        ctx, store, 0, [&](const auto&) { return square(model.w[0]); }, model.input());
    backward(sum(model.input() * squared));  // its function of its own may
    store.end_micro_batch();
    store.finish_gradients();
    CHECK(store.gradient_norm() > 0);
  });
}

TEST_CASE("a unit within itself") {
  const auto gradient = [](bool nested, context& ctx, auto& model, auto& store) {
    using x_type = typename std::remove_reference_t<decltype(model)>::x_type;
    store.begin_step(1);
    const auto times = [&](const x_type& h) -> x_type { return h * model.w[0]; };
    const auto in = [&](auto&& f, const x_type& h) -> x_type { return in_unit(ctx, store, 0, f, h); };
    const x_type x = model.input();
    const x_type y = nested ? in([&](const x_type& h) -> x_type { return times(in(times, times(h))); }, x)
                            : in([&](const x_type& h) -> x_type { return times(times(times(h))); }, x);
    backward(sum(square(y)));
    store.end_micro_batch();
    store.finish_gradients();
    return model.gradients(store);
  };
  every_policy([&](context& ctx, auto& model, auto& store) {
    CHECK(gradient(true, ctx, model, store) == gradient(false, ctx, model, store));
  });
}

TEST_CASE("an error in a forward costs that forward and nothing else") {
  every_policy([](context& ctx, auto& model, auto& store) {
    const numbers expected = model.step(store);
    for (int at = 0; at < 3; ++at) {
      const auto failing = [&] {
        model.loss(store, [&](int unit, const auto&) { require(unit != at, "in the forward"); });
      };
      store.begin_step(1);
      refuses(failing, "in the forward");
      CHECK(ctx.unit.empty());
      CHECK(item(all_reduce<dp>(model.loss(store))) > 0);
      refuses(failing, "in the forward");  // the entries that it leaves lead nowhere
      backward(model.loss(store));
      CHECK(ctx.tape->size() == 0);
      store.end_micro_batch();
      store.finish_gradients();
      CHECK(model.gradients(store) == expected);
      refuses(failing, "in the forward");
      CHECK(model.step(store) == expected);
    }
  });
}

TEST_CASE("an error in a backward costs that step; the next, or an evaluation, is as if it had not been") {
  every_policy([](context& ctx, auto& model, auto& store) {
    using x_type = typename std::remove_reference_t<decltype(model)>::x_type;
    const numbers expected = model.step(store);
    const float loss = item(all_reduce<dp>(model.loss(store)));
    ctx.tape->clear();
    for (int at = 0; at < 3; ++at)
      for (const bool split : {false, true}) {
        store.begin_step(1);
        int runs = 0;
        x_type h = model.input();
        for (int u = 0; u < 3; ++u)
          h = in_unit(
              ctx, store, u,
              [&](const x_type& in) {
                return checkpoint(
                    [&, u](const x_type& x) -> x_type {
                      require(u != at || runs++ == 0, "in the backward");
                      return x * model.w[u];
                    },
                    in);
              },
              h);
        const auto bad = sum(square(h));
        if (split) {
          detail::seed_loss(bad, 1);
          refuses([&] { ctx.tape->backward_inputs(ctx); }, "in the backward");
        } else {
          refuses([&] { backward(bad); }, "in the backward");
        }
        CHECK(ctx.tape->size() == 0);
        CHECK(ctx.unit.empty());
        {
          const recording off(ctx, nullptr);
          CHECK(item(all_reduce<dp>(model.loss(store))) == loss);
        }
        store.end_micro_batch();
        refuses([&] { store.finish_gradients(); }, "ended with an error");
        CHECK(model.step(store) == expected);
      }
  });
}

TEST_CASE("a forward of one step is not backpropagated in the next") {
  every_policy([](context& ctx, auto& model, auto& store) {
    const numbers expected = model.step(store);
    store.begin_step(1);
    const auto loss = model.loss(store);
    store.begin_step(1);
    refuses([&] { backward(loss); }, "unit 2 ran forward in one step and is backpropagated in another");
    CHECK(ctx.tape->size() == 0);
    model.loss(store);  // left lying
    CHECK(model.step(store) == expected);
  });
}

TEST_CASE("a model has one store at a time") {
  using S = strategy<mesh<dp>, zero1>;
  launch<S>({.dp = 2}, [](context& ctx) {
    three_units<S> model(ctx);
    numbers first;
    for (int i = 0; i < 2; ++i) {
      typename three_units<S>::store_type store(ctx, model.registry, model.config());
      refuses([&] { typename three_units<S>::store_type second(ctx, model.registry, model.config()); },
              "the model has a parameter store already");
      const numbers g = model.step(store);
      store.step(adamw{}.at(1, 1e-3));  // whose new weights are on their way when the store ends
      CHECK((i == 0 || g == first));
      first = g;
    }
    refuses([&] { return model.input() * model.w[0]; }, "parameter gain 0 has no memory");
  });
}
