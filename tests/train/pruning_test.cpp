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
                           .hidden = 32,
                           .heads = 8,
                           .kv_heads = 4,
                           .head_dim = 4,
                           .ffn = 20,
                           .vocab = words,
                           .max_seq = 8,
                           .qkv_bias = true,
                           .qk_norm = true};
const gpt2_config gpt{.layers = 3, .hidden = 16, .heads = 4, .vocab = words, .max_seq = 8, .dropout = 0};
const kept_heads some{{0, 1}, {0, 1, 2, 3}, {1, 3}};  // on tp = 2, groups change their rank

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

namespace {

// Magnitudes and gradients of a model with numbers_of.
struct importance {
  head_scores magnitudes, by_batch[2], mean;
};
template <class S, template <class> class Model, class Config>
importance scores_under(const degrees& ranks, const Config& config, int micro_batches = 1) {
  importance out;
  std::mutex lock;
  launch<S>(ranks, [&](context& ctx) {
    stored<Model<S>> whole(ctx, config);
    importance own;
    own.magnitudes = head_magnitudes(ctx, whole.store);
    importance_plan plan{.batches = 1, .batch = rows, .seq = length, .micro_batches = micro_batches};
    own.by_batch[0] = head_gradients(ctx, whole.model, whole.store, texts{&ctx}, plan);
    plan.begin = 1;
    own.by_batch[1] = head_gradients(ctx, whole.model, whole.store, texts{&ctx}, plan);
    plan.begin = 0, plan.batches = 2;
    own.mean = head_gradients(ctx, whole.model, whole.store, texts{&ctx}, plan);
    CHECK(farthest(flat(head_magnitudes(ctx, whole.store)), flat(own.magnitudes)) == 0);  // nothing was updated
    const std::lock_guard guard(lock);
    if (out.mean.empty()) out = own;
    CHECK(out.magnitudes == own.magnitudes);  // on every rank, bit by bit
    CHECK(out.by_batch[0] == own.by_batch[0]);
    CHECK(out.mean == own.mean);
  });
  return out;
}

template <template <class> class Model, class Config>
void importance_is_what_it_says(const Config& config) {
  using one_rank = strategy<mesh<dp, pp, tp>, fp64>;
  const importance one = scores_under<one_rank, Model>({}, config);
  REQUIRE(one.mean.size() == 3);
  launch<one_rank>({}, [&](context& ctx) {
    stored<Model<one_rank>> whole(ctx, config);
    // The norm of all of a group's numbers, by the parameters' names and shapes.
    head_scores squares(3, numbers(4));
    for (const parameter_unit& u : whole.model.registry().units())
      for (const parameter_record& p : u.parameters) {
        const std::string name = p.name.substr(std::min(p.name.size(), std::size_t(9)));
        const bool rows_first = name.starts_with("query") || name.starts_with("key") || name.starts_with("value");
        if (name != "out" && (!rows_first || name.ends_with("norm"))) continue;
        const int d = name == "out" ? 1 : 0;
        std::int64_t inner = 1;
        for (int e = d + 1; e < p.global.ndim; ++e) inner *= p.global[e];
        const numbers all = numbers_of(p);
        for (std::size_t i = 0; i < all.size(); ++i) {
          const std::int64_t head = std::int64_t(i) / inner % p.global[d];
          squares[std::size_t(p.name[7] - '0')][std::size_t(head * 4 / p.global[d])] += all[i] * all[i];
        }
      }
    for (std::size_t layer = 0; layer < 3; ++layer)
      for (std::size_t group = 0; group < 4; ++group)
        CHECK(one.magnitudes[layer][group] == doctest::Approx(std::sqrt(squares[layer][group])).epsilon(1e-12));
    // The derivative of the mean loss by a gate of the group, from both sides: off by h^2, and rounding by 1e-16 / h.
    const double h = 1e-4;
    for (std::int64_t step = 0; step < 2; ++step)
      for (std::int64_t layer = 0; layer < 3; ++layer)
        for (std::int64_t group = 0; group < 4; ++group) {
          const auto loss = [&](double gate) {
            whole.store.load_parameters([&](const parameter_record& p) {
              return gated(p, 4, [&](auto l, auto g) { return l == layer && g == group ? gate : 1.0; });
            });
            return whole.loss(ctx, step + 1);
          };
          const double slope = std::abs(loss(1 + h) - loss(1 - h)) / (2 * h);
          CHECK(one.by_batch[step][std::size_t(layer)][std::size_t(group)] ==
                doctest::Approx(slope).epsilon(1e-6).scale(1e-2));
          CHECK(slope > 1e-6);
        }
  });
  for (std::size_t layer = 0; layer < 3; ++layer)
    for (std::size_t group = 0; group < 4; ++group)
      CHECK(one.mean[layer][group] ==
            doctest::Approx((one.by_batch[0][layer][group] + one.by_batch[1][layer][group]) / 2).epsilon(1e-12));
  const auto same = [&]<class S>(S, const degrees& ranks, int micro_batches) {
    const importance all = scores_under<S, Model>(ranks, config, micro_batches);
    // Sums of some hundred products in another order.
    CHECK(farthest(flat(all.magnitudes), flat(one.magnitudes)) < 1e-12);
    CHECK(farthest(flat(all.by_batch[0]), flat(one.by_batch[0])) < 1e-12);
    CHECK(farthest(flat(all.mean), flat(one.mean)) < 1e-12);
  };
  same(one_rank{}, {.dp = 2, .tp = 2}, 1);
  same(strategy<mesh<dp, pp, tp>, zero3, fp64>{}, {.dp = 2, .tp = 2}, 2);
  same(strategy<mesh<dp, pp, tp>, zero2, fp64, sequence_parallel, checkpoint_full>{}, {.dp = 2, .tp = 2}, 1);
  same(strategy<mesh<dp, pp, tp>, zero1, fp64>{}, {.dp = 2, .pp = 2}, 2);
  same(strategy<mesh<dp, pp, tp>, zero1, fp64, gpipe>{}, {.pp = 3}, 2);
}

}  // namespace

TEST_CASE("importance by magnitude and by gradient: against its definition, and the same under every strategy") {
  SUBCASE("llama") { importance_is_what_it_says<llama_of>(grouped); }
  SUBCASE("gpt2") { importance_is_what_it_says<gpt2_of>(gpt); }
}

TEST_CASE("importance where it can't be had is refused") {
  using S = strategy<mesh<dp>, zero2>;
  launch<S>({.dp = 2}, [](context& ctx) {
    stored<llama<S>> whole(ctx, grouped);
    CHECK(said_by([&] { head_gradients(ctx, whole.store, 1); }) ==
          "the gradients of all output projections are 0: run a step's backward first");
    const auto judged = [&](importance_plan plan) {
      return said_by([&] { head_gradients(ctx, whole.model, whole.store, texts{&ctx}, plan); });
    };
    CHECK(
        judged({.batches = 1, .batch = 3, .seq = 4}) ==
        "a batch of 3 sequences doesn't divide into 1 micro-batches on 2 data-parallel ranks; choose a multiple of 2");
    CHECK(judged({.batches = 0}).starts_with("heads are judged by at least 1 batch"));
    whole.store.load_parameters([](const parameter_record& p) {
      numbers out = numbers_of(p);
      if (p.name == "layers.1.down") out[5] = NAN;
      return out;
    });
    CHECK(judged({.batches = 2, .batch = 4, .seq = 4}) == "the gradients of batch 1 aren't finite");
  });
  using adapted = strategy<mesh<dp>, lora<2>>;
  launch<adapted>({.dp = 2}, [](context& ctx) {
    stored<llama<adapted>> whole(ctx, grouped);
    CHECK(said_by([&] {
            head_gradients(ctx, whole.model, whole.store, texts{&ctx}, {.batches = 1, .batch = 4});
          }).find("layers.2.out is frozen, so it has no gradient to judge heads by") != std::string::npos);
    CHECK(head_magnitudes(ctx, whole.store).size() == 3);  // adapters don't count
  });
}

TEST_CASE("what fp16 can't hold under one loss scale is computed under a lower one; masks of dropout stay a run's") {
  using S = strategy<mesh<dp>, fp16_mixed>;
  launch<S>({.dp = 2}, [](context& ctx) {
    gpt2_config config = gpt;
    config.dropout = 0.1;
    stored<gpt2<S>> whole(ctx, config);
    whole.model.recorded_passes(7);
    const head_scores scores =
        head_gradients(ctx, whole.model, whole.store, texts{&ctx}, {.batches = 2, .batch = 4, .micro_batches = 2});
    CHECK(whole.model.recorded_passes() == 7);
    for (const double s : flat(scores)) CHECK(std::isfinite(s));
  });
}

TEST_CASE("which heads stay: the least important go, each layer keeps some") {
  const head_scores scores{{5, 1, 4, 2}, {0.1, 0.2, 0.3, 0.4}, {9, 8, 7, 6}};
  CHECK(prune_heads(scores, {.count = 1}) == kept_heads{{0, 1, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}});
  CHECK(prune_heads(scores, {.count = 4}) == kept_heads{{0, 2, 3}, {3}, {0, 1, 2, 3}});  // the second keeps its best
  CHECK(prune_heads(scores, {.fraction = 0.5}) == kept_heads{{0}, {3}, {0, 1, 2, 3}});
  CHECK(prune_heads(scores, {.count = 9}) == kept_heads{{0}, {3}, {0}});
  CHECK(prune_heads(scores, {.fraction = 0.25, .alike = true}) == kept_heads{{0, 2, 3}, {1, 2, 3}, {0, 1, 2}});
  // By two: means of 1.5 in the first layer, 0.15, and 6.5.
  CHECK(prune_heads(scores, {.count = 5, .multiple_of = 2}) == kept_heads{{0, 2}, {2, 3}, {0, 1, 2, 3}});
  CHECK(prune_heads(scores, {.count = 6, .multiple_of = 2}) == kept_heads{{0, 2}, {2, 3}, {0, 1}});
  // By their share of the layer's norm: 1 / 6.8, 0.1 / 0.55, 2 / 6.8, ...
  CHECK(prune_heads(scores, {.count = 2, .relative_to_layer = true}) == kept_heads{{0, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}});
  CHECK(prune_heads({{1, 1, 1}, {1, 1, 1}}, {.count = 3}) == kept_heads{{2}, {1, 2}});  // of equals the first
  CHECK(prune_heads({{3, 1}, {2, 0, 1}}, {.count = 2}) == kept_heads{{0}, {0, 2}});     // one was pruned before

  const auto refused = [&](const prune_plan& plan) { return said_by([&] { prune_heads(scores, plan); }); };
  CHECK(refused({}) ==
        "prune_heads takes a fraction or a count of groups above 0, one of them, and not fraction = 0 "
        "with count = 0");
  CHECK(refused({.fraction = 0.5, .count = 2}).starts_with("prune_heads takes a fraction or a count"));
  CHECK(refused({.count = -2}).starts_with("prune_heads takes a fraction or a count"));
  CHECK(refused({.fraction = 1}) == "the fraction of heads to prune is from 0 to below 1, not 1");
  CHECK(refused({.fraction = NAN}).starts_with("the fraction of heads to prune"));
  CHECK(refused({.count = 10}) ==
        "10 groups of heads are to go, and at most 9 can, since each of the 3 layers keeps at least 1");
  CHECK(refused({.count = 8, .multiple_of = 2}).starts_with("8 groups of heads are to go, and at most 6 can"));
  CHECK(refused({.count = 2, .alike = true}) ==
        "2 groups of heads are to go, and they go by 3 here (multiple_of, times the layers where they are alike); "
        "choose at least as many");
  CHECK(refused({.count = 2, .multiple_of = 3}) ==
        "layer 0 has 4 groups of heads, which isn't a multiple of multiple_of = 3");
  CHECK(refused({.count = 2, .multiple_of = 0}).starts_with("multiple_of is 0"));
  CHECK(said_by([] {
          prune_heads({{1, NAN}}, {.count = 1});
        }) == "the score of layer 0's group 1 is nan; scores are finite numbers");
  CHECK(said_by([] { prune_heads({}, {.count = 1}); }) == "prune_heads is given no layer's scores");
}

TEST_CASE("configurations of pruned models") {
  const llama_config c = pruned(grouped, some);
  CHECK(c.layer_groups == layer_groups{2, 4, 2});
  CHECK(c.groups_by_layer() == std::vector<std::int64_t>{2, 4, 2});
  CHECK(c.head_dim == 4);
  CHECK(pruned(c, {{0}, {1, 2}, {1}}).layer_groups == layer_groups{1, 2, 1});  // once more
  CHECK(pruned(grouped, {{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}}) == grouped.resolved());
  llama_config plain = grouped;
  plain.qkv_bias = false;
  const llama_config alike = pruned(plain, {{0, 1, 2}, {1, 2, 3}, {0, 2, 3}});  // an ordinary Llama
  CHECK(alike.layer_groups.empty());
  CHECK((alike.heads == 6 && alike.kv_heads == 3 && alike.head_dim == 4));
  CHECK(!pruned(grouped, {{0}, {1}, {2}}).layer_groups.empty());  // of Qwen 2, whose config.json has no head_dim
  CHECK(pruned(gpt, some).layer_groups == layer_groups{2, 4, 2});
  static constexpr llama_config still_constant{.layers = 2};
  CHECK(still_constant.layer_groups.empty());

  const auto with = [](auto config, layer_groups groups, int tp) {
    config.layer_groups = groups;
    return said_by([&] { config.resolved(tp); });
  };
  CHECK(with(grouped, {2, 4, 2}, 2) == "nothing");
  CHECK(with(grouped, {2, 4, 3}, 2) ==
        "layer 2's groups of heads, 3, don't divide among tp = 2 ranks; choose tp so that they do, or prune "
        "with .multiple_of = tp");
  CHECK(with(gpt, {2, 1, 2}, 2).starts_with("layer 1's groups of heads, 1, don't divide"));
  CHECK(with(grouped, {2, 4}, 1) ==
        "layer_groups has 2 numbers, and the model has 3 layers; give one for each layer, or none");
  CHECK(with(grouped, {2, 0, 2}, 1) ==
        "layer 1 is to have 0 groups of heads by layer_groups; each layer has at least 1, and at most those of the "
        "whole model, 4");
  CHECK(with(gpt, {2, 5, 2}, 1).starts_with("layer 1 is to have 5 groups of heads"));
  const auto refused = [](const kept_heads& kept) { return said_by([&] { pruned(grouped, kept); }); };
  CHECK(refused({{0}, {1}}) == "heads of 2 layers are to be kept, and the model has 3");
  CHECK(refused({{0}, {1}, {}}) == "layer 2 is to keep no group of heads; each keeps at least 1");
  CHECK(refused({{0}, {2, 1}, {0}}) ==
        "layer 1 is to keep group 1 behind others; its groups are 0 to 3, each said once and in ascending order");
  CHECK(refused({{4}, {1}, {0}}).starts_with("layer 0 is to keep group 4; its groups are 0 to 3"));
}

TEST_CASE("a pruned model trains: every strategy equals one rank") {
  testing::training_task task{{.seq = 8, .steps = 3, .micro_batches = 2}, grouped};
  task.model = pruned(grouped, some);
  const auto one = testing::train<strategy<mesh<dp, pp, tp>, fp64>>({}, task);
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
  launch<strategy<mesh<>>>({}, [&](context& ctx) {
    gpt2<strategy<mesh<>>> model(ctx, small);
    for (const parameter_unit& u : model.registry().units())
      for (const parameter_record& p : u.parameters) elements += p.global.elements();
  });
  CHECK(elements == small.parameters());
  CHECK(small.parameters() == gpt.parameters() - 4 * (4 * 16 * 4 + 3 * 4));
}

namespace {

// What a pruned model's checkpoint and folder have after training.
template <class Model>
struct trained {
  Model model;
  trainer<Model> t;
  template <class Config>
  trained(context& ctx, const Config& config) : model(ctx, config), t(ctx, model, adamw{.lr = 1e-2}) {}
  double run(context& ctx, std::int64_t steps) {
    const std::int64_t done = t.state().batches;
    return t.run(texts{&ctx}, {.steps = done + steps, .begin = done, .batch = rows, .seq = length, .print = false})
        .loss;
  }
};

template <template <class> class Model, class Config>
void comes_back(const Config& whole, const weft_test::temporary_folder& here) {
  using sharded = strategy<mesh<dp, pp, tp>, zero3>;
  using one_rank = strategy<mesh<dp, pp, tp>>;
  const Config config = pruned(whole, some);
  double expected = 0;
  launch<sharded>({.dp = 2, .tp = 2}, [&](context& ctx) {
    trained<Model<sharded>> a(ctx, config), b(ctx, config);
    a.run(ctx, 2);
    save_checkpoint(ctx, a.t, here / "state");
    save_pretrained(ctx, a.model, a.t.store(), here / "folder");
    const double on = a.run(ctx, 2);
    load_checkpoint(ctx, b.t, here / "state");
    CHECK(b.run(ctx, 2) == on);  // the same bits
    if (ctx.is_first()) expected = on;
  });
  const auto read = [](const std::string& folder) {
    if constexpr (std::same_as<Config, llama_config>)
      return read_llama_config(folder);
    else
      return read_gpt2_config(folder);
  };
  CHECK(read(here / "folder").resolved() == config);
  const std::string written = read_file(here / "folder/model.safetensors");
  launch<one_rank>({}, [&](context& ctx) {
    trained<Model<one_rank>> a(ctx, config), b(ctx, read(here / "folder"));
    load_checkpoint(ctx, a.t, here / "state");
    load_weights(ctx, b.t.store(), safetensors(here / "folder"), weight_names_of(config));
    save_pretrained(ctx, a.model, a.t.store(), here / "again");
    save_pretrained(ctx, b.model, b.t.store(), here / "once more");
    CHECK(a.run(ctx, 2) == doctest::Approx(expected).epsilon(1e-5));  // fp32, four steps
  });
  for (const char* folder : {"again", "once more"}) {
    CHECK(read_file(here / folder + "/model.safetensors") == written);
    CHECK(read_file(here / folder + "/config.json") == read_file(here / "folder/config.json"));
  }
  launch<sharded>({.dp = 2}, [&](context& ctx) {  // into models of other heads
    trained<Model<sharded>> a(ctx, whole);
    const std::string of_state = said_by([&] { load_checkpoint(ctx, a.t, here / "state"); });
    CHECK(of_state.find("layers.0.query") != std::string::npos);
    CHECK(of_state.find("these weights are of another configuration") != std::string::npos);
    const std::string of_folder =
        said_by([&] { load_weights(ctx, a.t.store(), safetensors(here / "folder"), weight_names_of(config)); });
    CHECK(of_folder.find("parameter layers.0.query") != std::string::npos);
    Config other = config;
    other.layer_groups = {2, 2, 2};
    trained<Model<sharded>> b(ctx, other);
    CHECK(said_by([&] { load_checkpoint(ctx, b.t, here / "state"); }).find("layers.1.query") != std::string::npos);
  });
}

}  // namespace

TEST_CASE("a pruned model is saved and loaded, as a checkpoint and as a folder; others refuse it by name") {
  const weft_test::temporary_folder here;
  SUBCASE("llama") {
    llama_config config = grouped;
    config.qk_norm = false;
    comes_back<llama_of>(config, here);
    const nlohmann::json said = read_json(here / "folder/config.json");
    CHECK(said.at("model_type") == "weft_pruned_qwen2");
    CHECK(unpruned_family("weft_pruned_qwen2") == "qwen2");
    CHECK(unpruned_family("qwen2") == "qwen2");
    CHECK(said.at("architectures") == nlohmann::json{"WeftPrunedQwen2ForCausalLM"});
    CHECK(said.at("layer_groups") == nlohmann::json{2, 4, 2});
    const auto refused = [&](const nlohmann::json& more) {
      nlohmann::json j = said;
      j.update(more);
      return said_by([&] { parse_llama_config(j, "f"); });
    };
    CHECK(refused({{"model_type", "qwen2"}}).starts_with("the file f has fields that aren't known here: layer_groups"));
    CHECK(refused({{"layer_groups", nullptr}}) ==
          "the file f: layer_groups is null, and has to be a list of 3 numbers, the groups of heads in each layer, at "
          "least 1");
    for (const nlohmann::json& bad : {nlohmann::json{2, 4}, nlohmann::json{2, 4, 0}, nlohmann::json{2, 4, -1},
                                      nlohmann::json{2, 4, "2"}, nlohmann::json(2)})
      CHECK(refused({{"layer_groups", bad}}).starts_with("the file f: layer_groups is " + bad.dump()));
    CHECK(refused({{"model_type", "weft_pruned_gemma"}})
              .starts_with("the file f: model_type is \"weft_pruned_gemma\", and has to be llama"));
    CHECK(said_by([&] { read_gpt2_config(here / "folder"); }).find("model_type is") != std::string::npos);
  }
  SUBCASE("gpt2") {
    comes_back<gpt2_of>(gpt, here);
    CHECK(read_json(here / "folder/config.json").at("model_type") == "weft_pruned_gpt2");
    CHECK(said_by([&] { read_llama_config(here / "folder"); }).find("model_type is") != std::string::npos);
  }
  SUBCASE("where layers are alike, as an ordinary Llama") {
    llama_config config = grouped;
    config.qkv_bias = config.qk_norm = false;
    const std::string written = write_config(pruned(config, {{0, 1}, {1, 3}, {0, 2}}), dtype::f32);
    const llama_config read = parse_llama_config(parse_json(written, "f"), "f");
    CHECK(parse_json(written, "f").at("model_type") == "llama");
    CHECK((read.heads == 4 && read.kv_heads == 2 && read.head_dim == 4));
  }
}

TEST_CASE("a pruned model reads token by token what it reads at once, each layer keeping its own heads") {
  using S = strategy<mesh<dp, tp>, fp64>;
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

TEST_CASE("weights of 4 bits are copied as the numbers that they stand for") {
  using S = strategy<mesh<dp, tp>, zero3, bf16_mixed, nf4<lora<2>>>;
  launch<S>({.dp = 2, .tp = 2}, [](context& ctx) {
    llama_config config{.layers = 2, .hidden = 64, .heads = 4, .kv_heads = 4, .head_dim = 64, .ffn = 128};
    config.vocab = words, config.max_seq = 8;
    const kept_heads kept{{1, 2}, {0, 1, 2, 3}};
    stored<llama<S>> whole(ctx, config), small(ctx, pruned(config, kept));
    copy_pruned(ctx, whole.store, small.store, kept);
    const head_scores before = head_magnitudes(ctx, whole.store), after = head_magnitudes(ctx, small.store);
    for (std::size_t layer = 0; layer < 2; ++layer)
      for (std::size_t i = 0; i < kept[layer].size(); ++i)  // quantised once more
        CHECK(after[layer][i] == doctest::Approx(before[layer][std::size_t(kept[layer][i])]).epsilon(2e-2));
    CHECK(before[0][1] != doctest::Approx(before[0][0]).epsilon(1e-5));
    std::map<std::string, numbers> first;
    whole.store.each_parameter([&](const parameter_record& p, auto, auto w) {
      if (p.name == "layers.1.down") first[p.name].assign(w.begin(), w.end());
    });
    small.store.each_parameter([&](const parameter_record& p, auto, auto w) {
      if (p.name != "layers.1.down") return;
      double off = 0;
      for (std::int64_t i = 0; i < w.size(); ++i) off = std::max(off, std::abs(first[p.name][std::size_t(i)] - w[i]));
      CHECK(off < 0.02);  // of numbers up to 0.3, in steps of 0.03: a rank's own slice, and no other's
    });
  });
}

TEST_CASE("with check: a whole pruning passes, and a rank with other heads is told") {
  using S = strategy<mesh<dp, tp>, zero3>;
  const auto prunes = [](bool others) {
    return said_by([&] {
      launch<S>({.dp = 2, .tp = 2},
                [&](context& ctx) {
                  stored<llama<S>> whole(ctx, grouped);
                  const auto scores =
                      head_gradients(ctx, whole.model, whole.store, texts{&ctx}, {.batches = 1, .batch = 4});
                  const kept_heads kept = prune_heads(scores, {.fraction = 0.4, .multiple_of = 2});
                  llama_config config = pruned(grouped, kept);
                  if (others && ctx.rank() == 3) config.layer_groups = {2, 2, 4};
                  if (others && ctx.rank() != 3) config.layer_groups = {2, 4, 2};
                  stored<llama<S>> small(ctx, config);
                  copy_pruned(ctx, whole.store, small.store, kept);
                  CHECK(small.logits(ctx).size() == std::size_t(rows * length * words));
                },
                {.check = true});
    });
  };
  CHECK(prunes(false) == "nothing");
  CHECK(prunes(true).find("layer_groups[1]") != std::string::npos);
}

TEST_CASE("what isn't the pruned model's is refused by name, and nothing is set") {
  using S = strategy<mesh<dp, tp>>;
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
    CHECK(copied(whole, small, {{0}}) == "heads of 1 layers are to be kept, and the model has a layer 1");
    CHECK(copied(whole, small, {{0, 3}, {0, 1, 2, 4}, {1, 2}}).starts_with("layer 1 is to keep group 4"));
    CHECK(farthest(small.logits(ctx), before) == 0);
  });
}
