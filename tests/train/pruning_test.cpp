// Heads that are pruned: a pruned model is the whole one with those heads' output columns 0, the same under every
// strategy; it trains, generates, and takes weights of any store.
#include "pruning.hpp"

#include <mutex>

#include <doctest/doctest.h>

#include <weft/testing/strategy.hpp>

using namespace weft;
using namespace weft_test::pruning;
using weft_test::said_by;

namespace {

using plain = strategy<mesh<dp, pp, tp>, fp64>;  // in every case, since what is compiled for it is compiled once

// Logits of the pruned model, which are those of the whole one with the others' columns 0.
template <class S, template <class> class Model, class Config>
numbers pruned_logits(const degrees& ranks, const Config& config) {
  numbers out;
  std::mutex lock;
  launch<S>(ranks, [&](context& ctx) {
    stored<Model<S>> whole(ctx, config), small(ctx, pruned(config, some));
    const numbers before = whole.logits(ctx);
    copy_pruned(ctx, whole.store, small.store, some);
    const numbers after = small.logits(ctx);
    CHECK(farthest(whole.logits(ctx), before) == 0);  // the whole one stays as it was
    const auto stays = [&](std::int64_t layer, std::int64_t group) {
      const auto& kept = some[std::size_t(layer)];
      return std::find(kept.begin(), kept.end(), group) != kept.end() ? 1.0 : 0.0;
    };
    whole.store.load_parameters([&](const parameter_record& p) { return gated(p, 4, stays); });
    const numbers wanted = whole.logits(ctx);
    const std::lock_guard guard(lock);
    CHECK(farthest(after, wanted) < 1e-12);  // fp64, numbers of order 1: the order of sums
    CHECK(farthest(after, before) > 1e-2);
    if (ctx.is_first()) out = after;
  });
  return out;
}

template <template <class> class Model, class Config>
void is_whole_with_zeros(const Config& config) {
  const numbers one = pruned_logits<plain, Model>({}, config);
  const auto same = [&]<class S>(S, const degrees& ranks) {
    CHECK(farthest(pruned_logits<S, Model>(ranks, config), one) < 1e-12);
  };
  same(plain{}, {.dp = 2, .tp = 2});
  same(plain{}, {.dp = 2, .pp = 2});
  // Other sharding policies: pruned_stores_test.cpp.
  same(strategy<mesh<dp, pp, tp>, zero3, fp64, sequence_parallel>{}, {.dp = 2, .tp = 2});
}

}  // namespace

TEST_CASE("a pruned model is the whole one with the heads' output columns 0, under every strategy") {
  SUBCASE("llama: groups of queries, with biases and norms") { is_whole_with_zeros<llama_of>(grouped); }
  SUBCASE("gpt2: a group is a head") { is_whole_with_zeros<gpt2_of>(gpt); }
  SUBCASE("queries, keys and values in one weight") {
    using S = strategy<mesh<dp, pp, tp>, zero3, fp64, fused_qkv<>>;
    pruned_logits<S, llama_of>({.dp = 2, .tp = 2}, grouped);
  }
  SUBCASE("adapters beside the projections") {
    using S = strategy<mesh<dp, pp, tp>, zero2, fp64, lora<2>>;
    launch<S>({.tp = 2}, [](context& ctx) {
      stored<llama<S>> whole(ctx, grouped), small(ctx, pruned(grouped, some));
      copy_pruned(ctx, whole.store, small.store, some);
      // Heads that are gone add nothing: neither their columns of out nor those of its adapter's first factor.
      whole.store.load_parameters([&](const parameter_record& p) {
        numbers out = numbers_of(p);
        const bool factor = p.name.ends_with(".out.lora_a");
        if (!factor && !p.name.ends_with(".out")) return out;
        const std::int64_t layer = p.name[7] - '0';
        const auto& kept = some[std::size_t(layer)];
        for (std::size_t i = 0; i < out.size(); ++i)
          if (std::find(kept.begin(), kept.end(), std::int64_t(i) / 4 % 8 / 2) == kept.end()) out[i] = 0;
        return out;
      });
      CHECK(farthest(small.logits(ctx), whole.logits(ctx)) < 1e-12);
    });
  }
}

TEST_CASE("a pruned model trains: every strategy equals one rank") {
  testing::training_task task{{.seq = 8, .steps = 3, .micro_batches = 2}, grouped};
  task.model = pruned(grouped, some);
  const auto one = testing::train<plain>({}, task);
  CHECK(one.losses[2] < one.losses[0]);
  std::int64_t counted = 0;
  for (const auto& entry : one.gradients) counted += std::ssize(entry.second);
  CHECK(counted == task.model.parameters());
  CHECK(one.gradients.at("layers.0.out").size() == 32 * 4 * 4);
  CHECK(one.gradients.at("layers.1.out").size() == 32 * 8 * 4);
  const auto equal = [&]<class S>(S, const degrees& ranks) {
    for (const std::string& line : testing::disagreements(one, testing::train<S>(ranks, task), 1e-10, 1e-8))
      FAIL_CHECK(line);
  };
  equal(strategy<mesh<dp, pp, tp>, zero3, fp64, sequence_parallel, checkpoint_full>{}, {.dp = 2, .tp = 2});
  equal(strategy<mesh<dp, pp, tp>, zero2, fp64>{}, {.dp = 2, .pp = 2});
  equal(strategy<mesh<dp, pp, tp>, replicated, fp64, checkpoint_selective>{}, {.tp = 2, .pp = 2});
  const gpt2_config small = pruned(gpt, some);
  std::int64_t elements = 0;
  launch<plain>({}, [&](context& ctx) {
    gpt2<plain> model(ctx, small);
    for (const parameter_unit& u : model.registry().units())
      for (const parameter_record& p : u.parameters) elements += p.global.elements();
  });
  CHECK(elements == small.parameters());
  CHECK(small.parameters() == gpt.parameters() - 4 * (4 * 16 * 4 + 3 * 4));
}

TEST_CASE("a pruned model reads token by token what it reads at once, each layer keeping its own heads") {
  using S = plain;
  launch<S>({.tp = 2}, [](context& ctx) {
    const auto check = [&](auto& small) {
      using ids = typename std::remove_reference_t<decltype(small.model)>::ids;
      const auto part = [&](std::int64_t first, std::int64_t n) {
        return generate<ids>(ctx, {2, n}, [=](std::int64_t i) { return (i / n * 5 + (first + i % n) * 3) % words; });
      };
      const recording off(ctx, nullptr);
      const auto all = on_host(all_gather<dp>(all_gather<tp>(small.model(part(0, 5)))));
      kv_cache cache(ctx, 2, 8);
      small.model.prefill(part(0, 3), cache);
      small.model.decode(part(3, 1), cache);
      const auto last = on_host(all_gather<dp>(all_gather<tp>(small.model.decode(part(4, 1), cache))));
      for (std::size_t row = 0; row < 2; ++row)
        for (std::size_t v = 0; v < std::size_t(words); ++v)
          CHECK(last[row * words + v] == doctest::Approx(all[(row * 5 + 4) * words + v]).epsilon(1e-10).scale(1e-2));
    };
    stored<llama<S>> of_llama(ctx, pruned(grouped, some));
    check(of_llama);
    stored<gpt2<S>> of_gpt2(ctx, pruned(gpt, some));
    check(of_gpt2);
  });
}

TEST_CASE("weights go from store to store with their bits, between sharding policies and precisions") {
  using from = strategy<mesh<dp, fsdp, pp, tp>, hybrid, bf16_mixed>;
  using to = strategy<mesh<dp, fsdp, pp, tp>, hybrid, fp64>;
  launch<from>(degrees{.tp = 2, .pp = 2}.with<fsdp>(2), [](context& ctx) {
    llama<from> whole(ctx, grouped);
    llama<to> small(ctx, pruned(grouped, some));
    store_of<llama<from>> a(ctx, whole.registry(), config_of<hybrid>());
    store_of<llama<to>> b(ctx, small.registry(), config_of<hybrid>());
    const auto with_minus_zero = [](const parameter_record& p) {
      numbers out = numbers_of(p);
      for (std::size_t i = 0; i < out.size(); i += 3) out[i] = -0.0;
      return out;
    };
    a.load_parameters(with_minus_zero);
    copy_pruned(ctx, a, b, some);
    std::int64_t seen = 0;
    b.each_parameter([&](const parameter_record& p, auto, auto w) {
      if (!p.name.ends_with(".key")) return;  // [kv_heads, head_dim, hidden]
      const std::size_t layer = std::size_t(p.name[7] - '0');
      parameter_record before = p;
      before.global[0] = 4;
      const numbers all = with_minus_zero(before);
      for (std::int64_t i = 0; i < p.local.elements(); ++i, ++seen) {
        const std::int64_t g = p.at.global_index(i), size = 4 * 32;
        const auto group = std::size_t(some[layer][std::size_t(g / size)]);
        const double wanted = static_cast<float>(all[group * size + std::size_t(g % size)]);  // as masters are kept
        CHECK(w[i] == wanted);
        CHECK(std::signbit(w[i]) == std::signbit(wanted));
      }
    });
    CHECK(seen > 0);
  });
}

TEST_CASE("what isn't the pruned model's is refused by name, and nothing is set") {
  using S = plain;
  launch<S>({.dp = 2}, [](context& ctx) {
    llama_config shorter = pruned(grouped, some);
    shorter.layers = 2, shorter.layer_groups = {2, 4};
    llama_config other = grouped;
    other.qk_norm = false;
    stored<llama<S>> whole(ctx, grouped), small(ctx, pruned(grouped, some)), few(ctx, shorter), less(ctx, other);
    const numbers before = small.logits(ctx);
    const auto copied = [&](auto& from, auto& to, const kept_heads& kept) {
      return said_by([&] { copy_pruned(ctx, from.store, to.store, kept); });
    };
    CHECK(copied(whole, small, {{0, 3}, {0, 1, 2}, {1, 2}}) ==
          "parameter layers.1.query of the pruned model has 1024 elements, and 768 of the whole model's are kept: make "
          "its configuration by pruned(config, kept)");
    CHECK(copied(whole, few, some)
              .starts_with("parameter layers.2.attention_norm is one of the whole model's here and none of"));
    CHECK(copied(less, whole, {{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}})
              .starts_with("parameter layers.0.key_norm is one of the pruned model's here and none of"));
    CHECK(copied(whole, small, {{0}}) == "heads of 1 layers are to be kept, and the model has 3");
    CHECK(copied(whole, small, {{0, 3}, {0, 1, 2, 4}, {1, 2}}).starts_with("layer 1 is to keep group 4"));
    CHECK(farthest(small.logits(ctx), before) == 0);
  });
}
