// What a pipeline's stages hold of activations, by their ledgers: recomputation lowers the peak of every stage.
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

#include "sample.hpp"

namespace {
using namespace weft;
using std::size_t;

constexpr std::int64_t sequences = 2, length = 64, width = 64, words = 32;
constexpr int micro_batches = 6;

// The most that each stage holds of activations in a step, in residual streams of one micro-batch.
template <class S>
std::vector<double> peaks(int stages) {
  std::vector<double> out(size_t(stages), 0);
  launch<S>({.pp = stages}, [&](context& ctx) {
    llama<S> model(ctx, {.layers = 3 * stages, .hidden = width, .heads = 4, .vocab = words, .max_seq = length});
    parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    pipeline<llama<S>> runs(ctx, model);
    using ids = typename llama<S>::ids;
    struct token_pair {
      ids tokens, targets;
    };
    store.begin_step(micro_batches);
    ctx.memory.reset_peaks();
    runs.train(
        micro_batches, 1,
        [&](int) {
          const auto x = generate<ids>(ctx, {sequences, length}, [](std::int64_t i) { return i * 5 % words; });
          return token_pair{x, x};
        },
        [&](int) { store.end_micro_batch(); });
    out[size_t(ctx.index<pp>().here())] =
        double(ctx.memory.ledger().peak[size_t(memory::activations)]) / double(4 * sequences * length * width);
    store.finish_gradients();
  });
  return out;
}

template <class... Policies>
void check_order(int stages) {
  const auto none = peaks<strategy<mesh<pp>, Policies...>>(stages),
             some = peaks<strategy<mesh<pp>, checkpoint_selective, Policies...>>(stages),
             full = peaks<strategy<mesh<pp>, checkpoint_full, Policies...>>(stages);
  for (size_t s = 0; s < none.size(); ++s) {
    MESSAGE("stage " << s << " of " << stages << ", residual streams: full " << full[s] << ", selective " << some[s]
                     << ", none " << none[s]);
    CHECK(full[s] < some[s]);
    CHECK(some[s] < none[s]);
  }
}
}  // namespace

TEST_CASE("recomputation lowers the peak of every stage: full < selective < none") {
  for (const int stages : weft_test::sampled_cases({4, 2})) check_order(stages);
}

// What the first part of a backward leaves for the second, as a part of what the forward keeps.
template <class S>
double left_between() {
  double left = 0;
  launch<S>({}, [&](context& ctx) {
    llama<S> model(ctx, {.layers = 6, .hidden = width, .heads = 4, .vocab = words, .max_seq = length});
    parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    using ids = typename llama<S>::ids;
    const auto held = [&] { return double(ctx.memory.ledger().current[size_t(memory::activations)]); };
    for (int step = 0; step < 2; ++step) {  // in the first what lasts is made too
      store.begin_step(1);
      const auto x = generate<ids>(ctx, {sequences, length}, [](std::int64_t i) { return i * 5 % words; });
      tape own;
      const recording on(ctx, &own);
      const double before = held();
      auto l = cross_entropy(model(x), x);
      const double kept = held() - before;
      detail::seed_loss(l.sum, 1);
      l = {};
      own.backward_inputs(ctx);
      left = (held() - before) / kept;
      own.backward_weights(ctx);
      store.end_micro_batch();
      store.finish_gradients();
    }
  });
  return left;
}

TEST_CASE("between its two parts a backward holds more than the forward has kept") {
  const double none = left_between<strategy<mesh<>>>(), some = left_between<strategy<mesh<>, checkpoint_selective>>(),
               full = left_between<strategy<mesh<>, checkpoint_full>>();
  MESSAGE("left between the parts, of what a forward keeps: none " << none << ", selective " << some << ", full "
                                                                   << full);
  CHECK(none > 0.5);
  CHECK(none < 2);
  CHECK(some > none);
  CHECK(full > some);
}
