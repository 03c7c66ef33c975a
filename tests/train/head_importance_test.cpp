// How much heads matter: importance is what it says it is, the same under every strategy, and the least important go.
#include <mutex>

#include <doctest/doctest.h>

#include "pruning.hpp"

using namespace weft;
using namespace weft_test::pruning;
using weft_test::said_by;

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
  using S = strategy<mesh<dp, pp, tp>, zero2, fp64>;
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
    whole.store.load_parameters([](const parameter_record& p) {
      numbers out = numbers_of(p);
      if (p.name == "layers.1.key") out[7] = NAN;  // of the first group
      return out;
    });
    const head_scores with_nan = head_magnitudes(ctx, whole.store);
    CHECK(said_by([&] { prune_heads(with_nan, {.count = 1}); }) ==
          "the score of layer 1's group 0 is nan; scores are finite numbers");
  });
  using adapted = strategy<mesh<dp, pp, tp>, fp64, lora<2>>;
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
  // Extreme scores: 0.55 of the norm and 0.32; means of 1.7e308 and 1.5e308.
  CHECK(prune_heads({{2e200, 3e200}, {1e-200, 3e-200}}, {.count = 1, .relative_to_layer = true}) ==
        kept_heads{{0, 1}, {1}});
  CHECK(prune_heads({{1.7e308, 1.7e308, 1.7e308, 1.7e308}, {1.5e308, 1.5e308, 1.5e308, 1.5e308}},
                    {.count = 2, .multiple_of = 2}) == kept_heads{{0, 1, 2, 3}, {2, 3}});
  CHECK(prune_heads({{1, 1, 1}, {1, 1, 1}}, {.count = 3}) == kept_heads{{2}, {1, 2}});  // of equals the first
  CHECK(prune_heads({{3, 1}, {2, 0, 1}}, {.count = 2}) == kept_heads{{0}, {0, 2}});     // one was pruned before
  // Layers without attention have no scores.
  CHECK(prune_heads({{3, 1}, {}, {2, 4}}, {.count = 1}) == kept_heads{{0}, {}, {0, 1}});
  CHECK(prune_heads({{3, 1}, {}, {2, 4}}, {.fraction = 0.5, .alike = true}) == kept_heads{{0}, {}, {1}});

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
  CHECK(said_by([] {
          prune_heads({{}, {3, 1}, {}}, {.count = 2});
        }) == "2 groups of heads are to go, and at most 1 can, since each of the 1 layers keeps at least 1");
  CHECK(said_by([] { prune_heads({{}, {}}, {.count = 1}); }) == "prune_heads is given no layer's scores");
  CHECK(said_by([] { prune_heads({}, {.count = 1}); }) == "prune_heads is given no layer's scores");
}

TEST_CASE("with check: a whole pruning passes, and a rank with other heads is told") {
  using S = strategy<mesh<dp, pp, tp>, zero3, fp64>;
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
