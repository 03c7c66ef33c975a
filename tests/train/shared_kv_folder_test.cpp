// A model whose ranks share key and value heads, taken elsewhere: texts, checkpoints and importance of heads are those
// of one rank, which has whole heads.
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/train/checkpoint.hpp>
#include <weft/train/head_importance.hpp>
#include <weft/weft.hpp>

#include "../temporary.hpp"
#include "small_batches.hpp"

using namespace weft;

namespace {

llama_config with(std::int64_t kv_heads) {
  return {.layers = 2,
          .hidden = 32,
          .heads = 8,
          .kv_heads = kv_heads,
          .ffn = 64,
          .vocab = 256,
          .max_seq = 32,
          .init_stddev = 0.3};
}

template <class S>
std::string text_of(const degrees& ranks, const llama_config& config) {
  std::string text;
  launch<S>(ranks, [&](context& ctx) {
    llama<S> model(ctx, config);
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    const std::string said = generate(model, "a few words", {.tokens = 40, .temperature = 0});  // beyond max_seq
    if (ctx.is_first()) text = said;
  });
  return text;
}

struct run {
  std::vector<double> losses;
  head_scores by_gradients, by_size;
};

// Steps begin + 1 ... end, from a folder or from the beginning; what is reached is saved.
template <class S>
run trained(const degrees& ranks, int begin, int end, const std::string& load, const std::string& save) {
  run out;
  launch<S>(ranks, [&](context& ctx) {
    llama<S> model(ctx, with(1));
    trainer t(ctx, model, adamw{.lr = 1e-2});
    if (!load.empty()) load_checkpoint(ctx, t, load);
    const weft_test::small_batches data{&ctx};
    std::vector<double> losses;
    for (int step = begin; step < end; ++step)
      losses.push_back(t.run(data, {.steps = step + 1,
                                    .begin = step,
                                    .batch = 8,
                                    .micro_batches = 2,
                                    .schedule = {.warmup = 2},
                                    .validation_sequences = 0,
                                    .print = false})
                           .loss);
    if (!save.empty()) save_checkpoint(ctx, t, save);
    const auto by_gradients = head_gradients(ctx, model, t.store(), data, {.batches = 2, .batch = 8});
    const auto by_size = head_magnitudes(ctx, t.store());
    if (ctx.is_first()) out = {losses, by_gradients, by_size};
  });
  return out;
}

// To rounding of fp64, which AdamW's first steps multiply.
void same(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-9));
}

using one = strategy<mesh<dp>, fp64>;
using many = strategy<mesh<dp, tp>, fp64, zero3, shared_kv<>>;
using cut = strategy<mesh<dp, pp, tp>, fp64, sequence_parallel, shared_kv<>>;

}  // namespace

TEST_CASE("texts are those of one rank, token for token") {
  for (const std::int64_t kv_heads : {1, 2}) {
    CAPTURE(kv_heads);
    const std::string text = text_of<one>({}, with(kv_heads));
    CHECK(text.size() == 40);
    CHECK(text_of<many>({.tp = 4}, with(kv_heads)) == text);
    CHECK(text_of<many>({.dp = 2, .tp = 2}, with(kv_heads)) == text);
    CHECK(text_of<cut>({.tp = 4, .pp = 2}, with(kv_heads)) == text);
  }
}

TEST_CASE("a cache keeps the heads that the rank's queries read, and no others") {
  using S = strategy<mesh<tp>, fp64, shared_kv<>>;
  const auto kept = [](const degrees& ranks, std::int64_t kv_heads) {
    std::size_t bytes = 0;
    launch<S>(ranks, [&](context& ctx) {
      llama<S> model(ctx, with(kv_heads));
      parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
      model.use(store);
      const auto held = [&] { return ctx.memory.ledger().current[static_cast<std::size_t>(memory::buffers)]; };
      const auto x = generate<typename llama<S>::ids>(ctx, {1, 4}, [](std::int64_t i) { return i; });
      model.prefill(x, *std::make_unique<kv_cache>(ctx, 1, 16));  // what the first pass makes for all
      const std::size_t before = held();
      kv_cache cache(ctx, 1, 16);
      model.prefill(x, cache);
      if (ctx.is_first()) bytes = held() - before;
    });
    return bytes;
  };
  const std::size_t whole = kept({}, 2);
  CHECK(whole == 2 * 2 * 16 * 2 * 4 * 8);  // layers, keys and values, positions, heads, their width, bytes
  CHECK(kept({.tp = 2}, 2) == whole / 2);
  CHECK(kept({.tp = 4}, 2) == whole / 2);  // one head each
  CHECK(kept({.tp = 4}, 1) == whole / 2);
}

TEST_CASE("checkpoints of shared heads are read where heads are whole, and the other way round") {
  const weft_test::temporary_folder here;
  const run unbroken = trained<one>({}, 0, 4, "", "");
  const run first = trained<many>({.tp = 4}, 0, 2, "", here / "shared");
  same(first.losses, {unbroken.losses[0], unbroken.losses[1]});
  const run second = trained<one>({}, 2, 3, here / "shared", here / "whole");
  same(second.losses, {unbroken.losses[2]});
  const run third = trained<cut>({.tp = 4, .pp = 2}, 3, 4, here / "whole", "");
  same(third.losses, {unbroken.losses[3]});
  for (std::size_t layer = 0; layer < 2; ++layer) {
    same(third.by_size.at(layer), unbroken.by_size.at(layer));
    same(third.by_gradients.at(layer), unbroken.by_gradients.at(layer));
  }
}
