// The whole model and the pruned one in one launch, under two strategies: one store takes its weights from the other,
// both train in turns; what can't be copied is refused.
#include <algorithm>

#include <doctest/doctest.h>

#include "pruning.hpp"

using namespace weft;
using namespace weft_test::pruning;
using weft_test::said_by;

namespace {

using axes = mesh<dp, fsdp, pp, tp>;
template <class... Policies>
using under = strategy<axes, fp64, Policies...>;
const degrees two_by_two{.dp = 2, .tp = 2}, staged{.dp = 2, .pp = 2};

llama_config four_layers() {
  llama_config config = grouped;
  config.layers = 4, config.tied_embeddings = true;  // under pp the first and the last stage have the table
  return config;
}
const kept_heads kept{{0, 1}, {0, 1, 2, 3}, {1, 3}, {2, 3}};

// The pruned model under B computes what the whole one under A does with the others' columns 0.
template <class A, class B>
void from_to(const degrees& ranks) {
  launch<A>(ranks, [](context& ctx) {
    stored<llama<A>> whole(ctx, four_layers());
    stored<llama<B>> small(ctx, pruned(four_layers(), kept));
    const double before = whole.loss(ctx, 1);
    copy_pruned(ctx, whole.store, small.store, kept);
    CHECK(whole.loss(ctx, 1) == before);
    whole.store.load_parameters([](const parameter_record& p) {
      return gated(p, 4, [](std::int64_t layer, std::int64_t group) {
        const auto& of_layer = kept[std::size_t(layer)];
        return std::find(of_layer.begin(), of_layer.end(), group) != of_layer.end() ? 1.0 : 0.0;
      });
    });
    const double wanted = whole.loss(ctx, 1);
    CHECK(small.loss(ctx, 1) == doctest::Approx(wanted).epsilon(1e-12));  // fp64: the order of sums
    CHECK(std::abs(wanted - before) > 1e-3);
  });
}

template <class A, class B>
std::string refusal(const degrees& ranks) {
  std::string said;
  launch<A>(ranks, [&](context& ctx) {
    llama<A> whole(ctx, four_layers());
    llama<B> small(ctx, pruned(four_layers(), kept));
    store_of<llama<A>> from(ctx, whole.registry(), config_of<typename A::sharding>());
    store_of<llama<B>> to(ctx, small.registry(), config_of<typename B::sharding>());
    const std::string own = said_by([&] { copy_pruned(ctx, from, to, kept); });
    if (ctx.is_first()) said = own;
  });
  return said;
}

}  // namespace

TEST_CASE("weights go from store to store in one launch, whatever shards them") {
  using every = under<replicated>;
  using one = under<zero1>;
  using whole_units = under<zero3, sequence_parallel>;
  using inner = under<hybrid>;
  using parts_of_heads = under<zero2, shared_kv<>>;  // sharded along head_dim, and not along heads
  from_to<every, whole_units>(two_by_two);
  from_to<whole_units, every>(two_by_two);
  from_to<whole_units, one>(staged);
  from_to<inner, whole_units>(degrees{.tp = 2}.with<fsdp>(2));
  from_to<one, inner>(degrees{.dp = 2}.with<fsdp>(2));
  from_to<parts_of_heads, whole_units>(two_by_two);
  from_to<one, parts_of_heads>({.tp = 4});
}

TEST_CASE("both models train in turns in one launch, and the whole one's run doesn't notice") {
  using A = strategy<axes, zero3>;
  using B = strategy<axes, zero1>;
  const auto losses = [](bool prunes) {
    std::vector<double> out;
    launch<A>(
        two_by_two,
        [&](context& ctx) {
          const auto run = [&](auto& t, std::int64_t from, std::int64_t to) {
            return t.run(texts{&ctx}, {.steps = to, .begin = from, .batch = rows, .seq = length, .print = false}).loss;
          };
          llama<A> whole(ctx, four_layers());
          trainer before(ctx, whole, adamw{.lr = 1e-2});
          std::vector<double> own{run(before, 0, 2)};
          if (prunes) {
            llama<B> small(ctx, pruned(whole.config(), kept));
            trainer after(ctx, small, adamw{.lr = 1e-2});
            copy_pruned(ctx, before.store(), after.store(), kept);
            const double first = run(after, 0, 2);
            own.push_back(run(before, 2, 4));
            copy_pruned(ctx, before.store(), after.store(), kept);  // again, of later weights
            CHECK(run(after, 2, 3) != first);
          } else {
            own.push_back(run(before, 2, 4));
          }
          own.push_back(run(before, 4, 6));
          if (ctx.is_first()) out = own;
        },
        {.check = prunes});
    return out;
  };
  const std::vector<double> alone = losses(false);
  CHECK(alone == losses(true));  // the same bits
  CHECK(alone[0] != alone[1]);
}

TEST_CASE("what one store can't take from the other is refused on all ranks") {
  using plain = under<zero3>;
  const std::string alike =
      ": both are of one family and one projections policy, fused_qkv<> say, and lie on the same "
      "stages";
  CHECK(refusal<under<zero3, lora<2>>, plain>(two_by_two) ==
        "parameter layers.0.query.lora_a is an adapter of the whole model, and the pruned model has none: give it the "
        "same projections policy, or merge adapters first (save_merged)");
  CHECK(refusal<plain, under<zero3, lora<2>>>(two_by_two) == "nothing");  // which are as they were born
  CHECK(refusal<under<fused_qkv<>>, plain>(two_by_two) ==
        "parameter layers.0.qkv is one of the whole model's here and none of the pruned model's" + alike);
  CHECK(refusal<under<zbv>, plain>(staged) ==  // the first rank has layers 0 and 3
        "parameter layers.3.attention_norm is one of the whole model's here and none of the pruned model's" + alike);
}
