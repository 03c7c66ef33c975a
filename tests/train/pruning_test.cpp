// Heads that are pruned: a pruned model is the whole one with those heads' output columns 0, importance is what it says
// it is, and both are the same under every strategy. What is pruned trains, is saved and loaded.
#include <cmath>
#include <functional>
#include <map>
#include <mutex>

#include <doctest/doctest.h>

#include <weft/io/pretrained.hpp>
#include <weft/parallel/copy_pruned.hpp>
#include <weft/testing/strategy.hpp>
#include <weft/train/checkpoint.hpp>
#include <weft/train/head_importance.hpp>
#include <weft/weft.hpp>

#include "../said_by.hpp"
#include "../temporary.hpp"

using namespace weft;
using weft_test::said_by;

namespace {

using numbers = std::vector<double>;
constexpr std::int64_t rows = 4, length = 6, words = 13;

const llama_config grouped{.layers = 3,
                           .hidden = 24,
                           .heads = 8,
                           .kv_heads = 4,
                           .head_dim = 4,
                           .ffn = 20,
                           .vocab = words,
                           .max_seq = 8,
                           .qkv_bias = true,
                           .qk_norm = true};
const gpt2_config gpt{.layers = 3, .hidden = 16, .heads = 4, .vocab = words, .max_seq = 8, .dropout = 0};
const kept_heads some{{0, 3}, {0, 1, 2, 3}, {1, 2}};

// Numbers that depend on a parameter's name and an element's place alone, large enough that every head matters.
numbers numbers_of(const parameter_record& p) {
  numbers out(std::size_t(p.global.elements()));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = 0.3 * std::sin(double(i * i % 1009) + 7 * double(std::hash<std::string>{}(p.name) % 1000));
  return out;
}
// layers.N.out [hidden, heads, head_dim], the columns of some groups times a factor.
using gates = std::function<double(std::int64_t layer, std::int64_t group)>;
numbers gated(const parameter_record& p, std::int64_t groups, const gates& gate) {
  numbers out = numbers_of(p);
  if (!p.name.ends_with(".out")) return out;
  const std::int64_t layer = p.name[7] - '0', heads = p.global[1], size = p.global[2];
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t head = std::int64_t(i) / size % heads;
    out[i] *= gate(layer, head * groups / heads);
  }
  return out;
}

struct texts {
  context* ctx;
  template <class Ids>
  token_batch<Ids> train(std::int64_t step, std::int64_t first, std::int64_t n, std::int64_t seq) const {
    const auto word = [=](std::int64_t i) { return (step * 31 + i * i * 5 + i * 3) % words; };
    return {generate<Ids>(*ctx, {n, seq}, [&](std::int64_t i) { return word(first * seq + i); }),
            generate<Ids>(*ctx, {n, seq}, [&](std::int64_t i) { return word(first * seq + i + 1); })};
  }
  template <class Ids>
  token_batch<Ids> validation(std::int64_t first, std::int64_t n, std::int64_t seq) const {
    return train<Ids>(0, first, n, seq);
  }
  bool can_validate(std::int64_t) const { return false; }
};

template <class Model>
using store_of = parameter_store<typename Model::ids::backend, typename Model::strategy::precision>;

// A model with a store that has numbers_of.
template <class Model>
struct stored {
  Model model;
  store_of<Model> store;
  template <class Config>
  stored(context& ctx, const Config& config)
      : model(ctx, config), store(ctx, model.registry(), config_of<typename Model::strategy::sharding>()) {
    store.load_parameters(numbers_of);
    model.use(store);
  }
  numbers logits(context& ctx) {
    const auto tokens = texts{&ctx}.template train<typename Model::ids>(1, 0, rows, length).tokens;
    const recording off(ctx, nullptr);
    const auto all = on_host(all_gather<dp>(all_gather<tp>(model(tokens))));
    return {all.begin(), all.end()};
  }
  double loss(context& ctx, std::int64_t step) {
    pipeline<Model> stages(ctx, model);
    const loss_sums own =
        stages.evaluate(1, [&](int) { return texts{&ctx}.template train<typename Model::ids>(step, 0, rows, length); });
    const loss_sums all = finished<typename pipeline<Model>::loss_tensor>(ctx, own);
    return all.sum / all.count;
  }
};

double farthest(const numbers& a, const numbers& b) {
  double off = a.size() == b.size() && !a.empty() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) off = std::max(off, std::abs(a[i] - b[i]));
  return off;
}
numbers flat(const head_scores& scores) {
  numbers out;
  for (const auto& layer : scores) out.insert(out.end(), layer.begin(), layer.end());
  return out;
}

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
  using one_rank = strategy<mesh<dp, pp, tp>, fp64>;
  const numbers one = pruned_logits<one_rank, Model>({}, config);
  const auto same = [&]<class S>(S, const degrees& ranks) {
    CHECK(farthest(pruned_logits<S, Model>(ranks, config), one) < 1e-12);
  };
  same(one_rank{}, {.dp = 2, .tp = 2});
  same(strategy<mesh<dp, pp, tp>, zero3, fp64>{}, {.dp = 2, .tp = 2});
  same(strategy<mesh<dp, pp, tp>, zero3, fp64, sequence_parallel, checkpoint_full>{}, {.dp = 2, .tp = 2});
  same(strategy<mesh<dp, pp, tp>, zero1, fp64>{}, {.dp = 2, .pp = 2});
}

template <class S>
using llama_of = llama<S>;
template <class S>
using gpt2_of = gpt2<S>;

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
