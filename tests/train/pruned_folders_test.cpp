// Pruned models at rest: their configurations, checkpoints and folders, and weights of 4 bits.
#include <map>

#include <doctest/doctest.h>

#include <weft/io/pretrained.hpp>
#include <weft/train/checkpoint.hpp>

#include "../temporary.hpp"
#include "pruning.hpp"

using namespace weft;
using namespace weft_test::pruning;
using weft_test::said_by;

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
