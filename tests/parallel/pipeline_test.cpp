// A pipeline equals one rank: the stages' transfer, backwards whole and in two parts, embeddings tied across the two
// ends; alone and under data, tensor and sequence parallelism and sharded storage.
#include "parallel/gpt2.hpp"
#include "policy/in_parts.hpp"
#include "sample.hpp"

namespace {
using namespace weft;
using weft_test::fp64_gradient, weft_test::fp64_loss, weft_test::in_parts;

struct stages_case {
  weft::degrees degrees;
  int micro_batches;
};
constexpr std::initializer_list<stages_case> cases = {
    {{.pp = 2}, 3}, {{.pp = 4}, 6},          {{.dp = 2, .pp = 2}, 4},          {{.tp = 2, .pp = 2}, 1},
    {{.pp = 3}, 2}, {{.dp = 2, .pp = 4}, 2}, {{.dp = 2, .tp = 2, .pp = 2}, 2},
};

template <class... Policies>
void check_llama(bool tied) {
  using all = mesh<pp, dp, tp>;
  for (const stages_case& c : weft_test::sampled_cases(cases)) {
    weft_test::task t{{.batch = 4, .steps = 4, .micro_batches = c.micro_batches}};
    t.model.layers = 5, t.model.tied_embeddings = tied;  // five don't divide: stages of one and of two layers
    CAPTURE(c.degrees.pp);
    CAPTURE(c.degrees.dp);
    CAPTURE(c.degrees.tp);
    weft_test::check_equal(weft_test::train<strategy<mesh<>, fp64>>({}, t),
                           weft_test::train<strategy<all, fp64, Policies...>>(c.degrees, t), fp64_loss, fp64_gradient);
  }
}
}  // namespace

TEST_CASE("bug: embeddings tied across a pipeline's ends get the gradient of one end (replicated)") {
  check_llama<replicated>(true);
}
TEST_CASE("a pipeline equals one rank: zero3, recomputation, sequence parallelism, a head of its own") {
  check_llama<zero3, checkpoint_full, sequence_parallel>(false);
}
TEST_CASE("bug: embeddings tied across a pipeline's ends get the gradient of one end (zero2)") {
  check_llama<zero2>(true);
}
TEST_CASE("a pipeline whose backwards are in two parts equals one rank: zero2, tied embeddings") {
  check_llama<zero2, in_parts>(true);
}
TEST_CASE("a pipeline whose backwards are in two parts equals one rank: zero3, recomputation, sequence parallelism") {
  check_llama<zero3, checkpoint_full, sequence_parallel, in_parts>(false);
}

TEST_CASE("a pipeline equals one rank: gpt2 with dropout, whose masks are the same on every stage") {
  gpt2_config c = weft_test::small_gpt2;
  c.layers = 4;
  const weft_test::plan p{.batch = 4, .steps = 3, .micro_batches = 3};
  const auto serial =
      weft_test::without_key_biases(weft_test::train_model<gpt2<strategy<mesh<>, fp64>>>({}, c, p), fp64_gradient);
  const auto check = [&]<class S>(const degrees& d) {
    weft_test::check_equal(serial,
                           weft_test::without_key_biases(weft_test::train_model<gpt2<S>>(d, c, p), fp64_gradient),
                           fp64_loss, fp64_gradient);
  };
  using all = mesh<dp, tp, pp>;
  check.operator()<strategy<all, fp64, zero1, sequence_parallel>>({.pp = 4});
  check.operator()<strategy<all, fp64, zero1, sequence_parallel, in_parts>>({.dp = 2, .tp = 2, .pp = 2});
}

TEST_CASE(
    "one forward, one backward holds the activations of one micro-batch a stage still to come, however many there "
    "are") {
  using S = strategy<mesh<pp>>;
  const auto peaks = [](int micro_batches) {
    std::vector<std::size_t> peak(2);
    const weft_test::task t{{.batch = 4}};
    launch<S>({.pp = 2}, [&](context& ctx) {
      llama<S> model(ctx, t.model);
      parameter_store<cpu_backend, fp32> store(ctx, model.registry(), config_of<replicated>());
      model.use(store);
      pipeline<llama<S>> stages(ctx, model);
      using ids = llama<S>::ids;
      struct token_pair {
        ids tokens, targets;
      };
      store.begin_step(micro_batches);
      stages.train(
          micro_batches, 1,
          [&](int) {
            const auto x = generate<ids>(ctx, {4, 16}, [](std::int64_t i) { return i % 48; });
            return token_pair{x, x};
          },
          [&](int) { store.end_micro_batch(); });
      peak[std::size_t(ctx.rank().here())] = ctx.memory.ledger().peak[std::size_t(memory::activations)];
      store.finish_gradients();
    });
    return peak;
  };
  const auto two = peaks(2), eight = peaks(8);
  CHECK(two[0] == eight[0]);
  CHECK(two[1] == eight[1]);
}

TEST_CASE("stages: what doesn't fit is refused, and a recorded pass over several needs a schedule") {
  using S = strategy<mesh<pp>>;
  CHECK_THROWS_WITH_AS(launch<S>({.pp = 3}, [](context& ctx) { llama<S> model(ctx, {.layers = 2}); }),
                       doctest::Contains("2 layers don't fill 3 pipeline stages"), failure);
  launch<S>({.pp = 2}, [](context& ctx) {
    const weft_test::task t;
    llama<S> model(ctx, t.model);
    parameter_store<cpu_backend, fp32> store(ctx, model.registry(), config_of<replicated>());
    model.use(store);
    const auto x = generate<llama<S>::ids>(ctx, {2, 16}, [](std::int64_t i) { return i % 48; });
    CHECK_THROWS_WITH_AS(model(x), doctest::Contains("2 pipeline stages, which take turns"), failure);
  });
}

TEST_CASE("evaluation on stages gives every rank the logits of one rank") {
  const auto logits = []<class S>(const degrees& d) {
    std::vector<std::vector<double>> out(static_cast<std::size_t>(d.product()));
    launch<S>(d, [&](context& ctx) {
      const weft_test::task t;
      llama<S> model(ctx, t.model);
      parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<typename S::sharding>());
      model.use(store);
      const recording off(ctx, nullptr);
      const auto y = model(generate<typename llama<S>::ids>(ctx, {2, 16}, [](std::int64_t i) { return i * 7 % 48; }));
      out[std::size_t(ctx.rank().here())] = local_share_on_host(y);
    });
    return out;
  };
  const auto one = logits.operator()<strategy<mesh<>, fp64>>({});
  const auto two = logits.operator()<strategy<mesh<pp>, fp64, zero3>>({.pp = 2});
  for (const auto& held : two) CHECK(held == one[0]);
}
