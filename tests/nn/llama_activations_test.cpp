// What a layer of Llama keeps for its backward under each checkpointing policy, to the byte.
#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

constexpr std::int64_t sequences = 2, length = 160, tokens = sequences * length, width = 128, inner = 384, n_heads = 4;

struct held {
  std::size_t kept, peak;  // bytes of activations on the first rank: after the forward, and the most of a step
};

template <class S>
held activations_of(int layers, int tensor_parallel) {
  held out{};
  launch<S>({.tp = tensor_parallel}, [&](context& ctx) {
    llama<S> model(ctx,
                   {.layers = layers, .hidden = width, .heads = n_heads, .ffn = inner, .vocab = 64, .max_seq = length});
    parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    using ids = typename llama<S>::ids;
    const auto x = generate<ids>(ctx, {sequences, length}, [](std::int64_t i) { return i * 5 % 64; });
    store.begin_step(1);
    ctx.memory.reset_peaks();
    const auto l = cross_entropy(model(x), x);
    const auto at = static_cast<std::size_t>(memory::activations);
    const std::size_t kept = ctx.memory.ledger().current[at];
    backward(l.sum);
    if (ctx.is_first()) out = {kept, ctx.memory.ledger().peak[at]};
  });
  return out;
}

// Bytes that one layer more keeps: nothing else of the model is in them.
template <class... Policies>
std::size_t a_layer(int tensor_parallel) {
  using S = strategy<mesh<tp>, Policies...>;
  return activations_of<S>(3, tensor_parallel).kept - activations_of<S>(2, tensor_parallel).kept;
}

// Fp32 numbers. `cut`: what tp splits; `between`: the residual stream, which sequence parallelism splits too.
std::size_t bytes(std::int64_t between, std::int64_t cut, int tp, bool sequence) {
  return static_cast<std::size_t>(4 * tokens * between / (sequence ? tp : 1) + 4 * tokens * cut / tp);
}
// The stream before and between the blocks; queries, keys, values, attention's output and its two
// numbers a query and head; gate and up.
constexpr std::int64_t selective_between = 2 * width, selective_cut = 4 * width + 2 * n_heads + 2 * inner;
// Beside them the gate's product, and what the norms made: their rows' scale, and on every rank the whole of what
// enters a block.
constexpr std::int64_t norm_rows = 2;

template <class... Sequence>
void check(int tp, bool sequence) {
  const std::size_t none = a_layer<Sequence...>(tp), some = a_layer<checkpoint_selective, Sequence...>(tp),
                    full = a_layer<checkpoint_full, Sequence...>(tp);
  CAPTURE(tp);
  CHECK(full == bytes(width, 0, tp, sequence));
  CHECK(some == bytes(selective_between, selective_cut, tp, sequence));
  CHECK(none == bytes(selective_between + norm_rows, selective_cut + inner, tp, sequence) + 4 * tokens * 2 * width);
  const std::string how = sequence ? " with" : " without";
  MESSAGE("activations a layer, tp = " << tp << how << " sequence parallelism: selective " << 100 * some / none
                                       << " %, full " << 100 * full / none << " % of none");
}
}  // namespace

TEST_CASE("what a layer keeps") {
  check<>(1, false);
  check<>(2, false);
  check<sequence_parallel>(2, true);
  check<sequence_parallel>(4, true);
}

TEST_CASE("the peak of a step lies between full recomputation's and none's") {
  for (const int tp : {1, 2}) {
    const std::size_t none = activations_of<strategy<mesh<weft::tp>>>(4, tp).peak,
                      some = activations_of<strategy<mesh<weft::tp>, checkpoint_selective>>(4, tp).peak,
                      full = activations_of<strategy<mesh<weft::tp>, checkpoint_full>>(4, tp).peak;
    CHECK((full < some && some < none));
    MESSAGE("peak of activations, 4 layers, tp = " << tp << ": selective " << 100 * some / none << " %, full "
                                                   << 100 * full / none << " % of none");
  }
}
