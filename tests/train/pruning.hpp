// What the tests of pruned heads share: two models of which heads are pruned, their numbers, texts, and a model with a
// store.
#pragma once

#include <cmath>
#include <functional>

#include <doctest/doctest.h>

#include <weft/parallel/copy_pruned.hpp>
#include <weft/train/head_importance.hpp>
#include <weft/weft.hpp>

#include "../said_by.hpp"

namespace weft_test::pruning {

using namespace weft;

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
inline numbers numbers_of(const parameter_record& p) {
  numbers out(std::size_t(p.global.elements()));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = 0.3 * std::sin(double(i * i % 1009) + 7 * double(std::hash<std::string>{}(p.name) % 1000));
  return out;
}
// layers.N.out [hidden, heads, head_dim], the columns of some groups times a factor.
using gates = std::function<double(std::int64_t layer, std::int64_t group)>;
inline numbers gated(const parameter_record& p, std::int64_t groups, const gates& gate) {
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

inline double farthest(const numbers& a, const numbers& b) {
  double off = a.size() == b.size() && !a.empty() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) off = std::max(off, std::abs(a[i] - b[i]));
  return off;
}
inline numbers flat(const head_scores& scores) {
  numbers out;
  for (const auto& layer : scores) out.insert(out.end(), layer.begin(), layer.end());
  return out;
}

template <class S>
using llama_of = llama<S>;
template <class S>
using gpt2_of = gpt2<S>;

}  // namespace weft_test::pruning
