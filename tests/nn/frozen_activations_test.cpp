// What a layer keeps for its backward beside frozen weights, to the byte: the input of a frozen projection isn't, and
// so the gate's product and what the second norm made are gone where queries and values alone have adapters.
#include <string_view>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

constexpr std::int64_t sequences = 2, length = 160, tokens = sequences * length, width = 128, inner = 384, n_heads = 4;
constexpr int adapter = 8;

struct on_queries_and_values : lora<adapter> {
  static constexpr std::string_view name = "on_queries_and_values";
  static bool adapts_weight(std::string_view w) { return w.ends_with("query") || w.ends_with("value"); }
};
struct on_queries_keys_and_values : lora<adapter> {
  static constexpr std::string_view name = "on_queries_keys_and_values";
  static bool adapts_weight(std::string_view w) { return w.ends_with("qkv"); }
};
struct with_dropout : lora<adapter, 2 * adapter, std::ratio<1, 10>> {
  static constexpr std::string_view name = "with_dropout";
  static bool adapts_weight(std::string_view w) { return w.ends_with("query") || w.ends_with("value"); }
};

struct counted {
  context* ctx;
  template <class Ids>
  token_batch<Ids> train(std::int64_t, std::int64_t, std::int64_t count, std::int64_t seq) const {
    const auto shifted = [&](std::int64_t by) {
      return generate<Ids>(*ctx, {count, seq}, [&](std::int64_t i) { return (i * 5 + by) % 64; });
    };
    return {shifted(0), shifted(1)};
  }
  template <class Ids>
  token_batch<Ids> validation(std::int64_t first, std::int64_t count, std::int64_t seq) const {
    return train<Ids>(0, first, count, seq);
  }
  bool can_validate(std::int64_t) const { return false; }
};

// Bytes of activations on the first rank after a forward.
template <class S>
std::size_t kept(int layers, const degrees& ranks) {
  std::size_t out = 0;
  launch<S>(ranks, [&](context& ctx) {
    llama<S> model(ctx,
                   {.layers = layers, .hidden = width, .heads = n_heads, .ffn = inner, .vocab = 64, .max_seq = length});
    parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    if constexpr (requires { S::projections::stored_as; })
      store.load_parameters([](const parameter_record& p) {
        return std::vector<double>(static_cast<std::size_t>(p.global.elements()), 0.01);
      });
    const auto x =
        generate<typename llama<S>::ids>(ctx, {sequences, length}, [](std::int64_t i) { return i * 5 % 64; });
    store.begin_step(1);
    const auto l = cross_entropy(model(x), x);
    if (ctx.is_first()) out = ctx.memory.ledger().current[std::size_t(memory::activations)];
    backward(l.sum);
    store.end_micro_batch();
    store.finish_gradients();
  });
  return out;
}

// The most bytes of activations on the first rank in a step.
template <class S>
std::size_t peak(const degrees& ranks) {
  std::size_t out = 0;
  launch<S>(ranks, [&](context& ctx) {
    llama<S> model(ctx, {.layers = 2, .hidden = width, .heads = n_heads, .ffn = inner, .vocab = 64, .max_seq = length});
    trainer t(ctx, model);
    t.run(counted{&ctx}, {.steps = 1, .batch = 4 * sequences, .micro_batches = 4, .seq = length, .print = false});
    if (ctx.is_first()) out = ctx.memory.ledger().peak[std::size_t(memory::activations)];
  });
  return out;
}

// Numbers that one layer more keeps for a token of this rank, in fp32.
template <class... Policies>
double a_layer(const degrees& ranks = {}) {
  using S = strategy<mesh<dp, tp>, Policies...>;
  const auto bytes = double(kept<S>(3, ranks) - kept<S>(2, ranks));
  return bytes / (4 * tokens);
}

// The stream before and between the blocks; queries, keys, values, attention's output and its two numbers a query and
// head; gate and up.
constexpr double between = 2 * width, cut = 4 * width + 2 * n_heads + 2 * inner, norm_rows = 2;
// What both adapters read, and what their second factors do.
constexpr double adapters = width + 2 * adapter;
}  // namespace

TEST_CASE("adapters on queries and values: what a layer keeps") {
  for (const int n : {1, 2}) {
    CAPTURE(n);
    CHECK(a_layer<on_queries_and_values>({.tp = n}) == between + norm_rows + cut / n + adapters);
    CHECK(a_layer<on_queries_and_values, sequence_parallel>({.tp = n}) == (between + norm_rows + cut) / n + adapters);
    CHECK(a_layer<on_queries_and_values, checkpoint_full>({.tp = n}) == width);
  }
  CHECK(a_layer<nf4<on_queries_and_values>>() == between + norm_rows + cut + adapters);
  CHECK(a_layer<int8<on_queries_and_values>>() == between + norm_rows + cut + adapters);
  CHECK(a_layer<nf4<on_queries_and_values>, zero3>({.dp = 2}) == (between + norm_rows + cut + adapters) / 2);
  CHECK(a_layer<fused_qkv<on_queries_keys_and_values>>() == between + norm_rows + cut + width + adapter);
}

TEST_CASE("recomputation, and dropout before the adapters") {
  // Selective keeps what products and attention made: the norms' outputs and gate's product, which nobody reads, aren't
  // there either way; beside them the first factors' outputs, not their multiples.
  CHECK(a_layer<on_queries_and_values, checkpoint_selective>() == between + cut + 2 * adapter);
  CHECK(a_layer<on_queries_and_values, checkpoint_selective>({.tp = 2}) == between + cut / 2 + 2 * adapter);
  // Each adapter reads what was dropped for it; what it was dropped from nobody reads.
  CHECK(a_layer<with_dropout>() == between + norm_rows + cut + 2 * width + 2 * adapter);
  // Where everything has an adapter, all inputs are read: that of queries, keys and values, of attention's projection
  // (which attention keeps), of gate and up, of down.
  CHECK(a_layer<lora<adapter>>() == between + norm_rows + cut + 2 * width + inner + 7 * adapter);
  CHECK(a_layer<>() == between + norm_rows + cut + 2 * width + inner);
}

TEST_CASE("the most of a step falls too, where a layer runs again and on stages whose weights' gradients come later") {
  const auto falls_by = []<class Some, class All>(Some, All, const degrees& ranks, std::int64_t numbers) {
    CHECK(peak<Some>(ranks) + std::size_t(4 * tokens * numbers) <= peak<All>(ranks));
  };
  using some = on_queries_and_values;
  using all = lora<adapter>;
  // By what the second norm made, while the layer is in its backward; without recomputation by the gate's product, too.
  falls_by(strategy<mesh<dp>, checkpoint_full, some>{}, strategy<mesh<dp>, checkpoint_full, all>{}, {}, width);
  falls_by(strategy<mesh<dp>, checkpoint_selective, some>{}, strategy<mesh<dp>, checkpoint_selective, all>{}, {},
           width);
  falls_by(strategy<mesh<dp, pp>, zb_h1, some>{}, strategy<mesh<dp, pp>, zb_h1, all>{}, {.pp = 2}, width + inner);
}
