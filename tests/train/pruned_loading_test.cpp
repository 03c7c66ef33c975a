// A pruned model from files of the whole one: what isn't said is refused with the way out, and load_pruned reads what
// stays, with the bits that copy_pruned takes from the whole model's store.
#include <doctest/doctest.h>

#include <weft/io/pretrained.hpp>
#include <weft/train/checkpoint.hpp>

#include "../source_folder.hpp"
#include "../temporary.hpp"
#include "pruning.hpp"

using namespace weft;
using namespace weft_test::pruning;
using weft_test::said_by;

namespace {

using sharded = strategy<mesh<dp, pp, tp>, zero3>;

// How many numbers of this rank's two stores differ, and how many there are.
template <class Store>
std::pair<std::int64_t, std::int64_t> differ(Store& a, Store& b) {
  std::vector<double> first, second;
  const auto read = [](Store& store, std::vector<double>& into) {
    store.each_parameter([&](const parameter_record&, auto, auto w) { into.insert(into.end(), w.begin(), w.end()); });
  };
  read(a, first), read(b, second);
  REQUIRE(first.size() == second.size());
  std::int64_t differing = 0;
  for (std::size_t i = 0; i < first.size(); ++i) differing += first[i] != second[i];
  return {differing, std::ssize(first)};
}

// A folder of the whole model, read in two ways.
template <class S, template <class> class Model, class Config>
void reads_what_stays(const degrees& ranks, const std::string& folder, const Config& config, const kept_heads& kept) {
  launch<S>(ranks, [&](context& ctx) {
    pretrained<Model<S>> whole(ctx, config, folder);
    stored<Model<S>> copied(ctx, pruned(config, kept)), loaded(ctx, pruned(config, kept));
    copy_pruned(ctx, whole.store, copied.store, kept);
    CHECK(differ(copied.store, loaded.store).first > 0);
    load_pruned(ctx, loaded.store, safetensors(folder), weight_names_of(config), config, kept);
    const auto [off, all] = differ(copied.store, loaded.store);
    CHECK(off == 0);
    CHECK(all > 0);
  });
}

template <class S, template <class> class Model, class Config>
void write_whole(const Config& config, const std::string& folder) {
  launch<S>({}, [&](context& ctx) {
    stored<Model<S>> whole(ctx, config);
    save_pretrained(ctx, whole.model, whole.store, folder);
  });
}

// What load(ctx, store) says of a pruned model's store, which it leaves as it was.
template <class Model, class Config, class Load>
std::string refusal(const degrees& ranks, const Config& config, const kept_heads& kept, const Load& load) {
  std::string said;
  launch<typename Model::strategy>(ranks, [&](context& ctx) {
    stored<Model> small(ctx, pruned(config, kept));
    numbers before, after;
    const auto read = [&](numbers& into) {
      small.store.each_parameter([&](const auto&, auto, auto w) { into.insert(into.end(), w.begin(), w.end()); });
    };
    read(before);
    const std::string own = said_by([&] { load(ctx, small.store); });
    read(after);
    CHECK(before == after);
    if (ctx.is_first()) said = own;
  });
  return said;
}
template <template <class> class Model, class Config>
std::string of_folder(const degrees& ranks, const Config& config, const kept_heads& kept, const std::string& folder) {
  return refusal<Model<sharded>>(ranks, config, kept, [&](context& ctx, auto& store) {
    load_weights(ctx, store, safetensors(folder), weight_names_of(config));
  });
}

const auto is_the_sentence = [](const std::string& said, const std::string& tensor, int all, int left,
                                const std::string& way_out) {
  CHECK(said.starts_with("tensor " + tensor + " in the file "));
  CHECK(said.find(" has " + std::to_string(all) + " heads, and parameter layers.0.") != std::string::npos);
  CHECK(said.find(" has " + std::to_string(left) + ": where heads of the files' model were pruned, " + way_out +
                  " (docs/pruning.md)") != std::string::npos);
};
const std::string by_files = "load_pruned takes those that this model keeps",
                  by_stores =
                      "load the checkpoint into the whole model's trainer, and take over what is kept by "
                      "copy_pruned";

}  // namespace

TEST_CASE("a llama's folder: refused by a pruned one, which reads what stays by load_pruned") {
  const weft_test::temporary_folder here;
  llama_config config = grouped;
  config.qk_norm = false;
  write_whole<sharded, llama_of>(config, here / "whole");
  is_the_sentence(of_folder<llama_of>({.dp = 2, .tp = 2}, config, some, here / "whole"),
                  "model.layers.0.self_attn.q_proj.weight", 8, 4, by_files);
  reads_what_stays<sharded, llama_of>({.dp = 2, .tp = 2}, here / "whole", config, some);
  reads_what_stays<sharded, llama_of>({.dp = 2, .pp = 2}, here / "whole", config, {{3}, {0, 2}, {0}});

  SUBCASE("of a folder that is pruned already, once more") {
    write_whole<sharded, llama_of>(pruned(config, some), here / "once");
    const llama_config once = read_llama_config(here / "once");
    reads_what_stays<sharded, llama_of>({.dp = 2}, here / "once", once, {{1}, {0, 3}, {0}});
  }
  SUBCASE("one group of one head stays") {
    const kept_heads last{{3}, {0}, {2}};
    llama_config plain = grouped;
    plain.heads = 4, plain.qk_norm = plain.qkv_bias = false;
    write_whole<sharded, llama_of>(plain, here / "plain");
    is_the_sentence(of_folder<llama_of>({}, plain, last, here / "plain"), "model.layers.0.self_attn.q_proj.weight", 4,
                    1, by_files);
    reads_what_stays<sharded, llama_of>({.dp = 2}, here / "plain", plain, last);
  }
  SUBCASE("what has another reason than heads, or can't be kept, is said so") {
    launch<sharded>({.dp = 2}, [&](context& ctx) {
      const auto loads = [&](llama_config of, const kept_heads* kept) {
        stored<llama<sharded>> small(ctx, of);
        return said_by([&] {
          const safetensors files(here / "whole");
          if (kept) return load_pruned(ctx, small.store, files, weight_names_of(config), config, *kept);
          load_weights(ctx, small.store, files, weight_names_of(config));
        });
      };
      llama_config narrow = config;
      narrow.hidden = 16;
      CHECK(loads(narrow, nullptr).find("these weights are of another configuration") != std::string::npos);
      llama_config short_heads = config;
      short_heads.head_dim = 2;
      CHECK(loads(short_heads, nullptr).find("8 heads") == std::string::npos);
      const kept_heads other{{0, 1, 2}, {0, 1, 2, 3}, {1, 3}}, few{{0, 1}}, beyond{{0, 1}, {0, 1, 2, 4}, {1, 3}};
      const llama_config small = pruned(config, some);
      CHECK(loads(small, &other) ==
            "parameter layers.0.query has 4 heads, and its layer keeps 3 groups of heads: make the pruned model's "
            "configuration by pruned(whole, kept)");
      CHECK(loads(small, &few) == "heads of 1 layers are to be kept, and the model has 3");
      CHECK(loads(small, &beyond).starts_with("layer 1 is to keep group 4"));
      CHECK(loads(config, &some).find("needs [64, 32]: these weights are of another configuration") !=
            std::string::npos);
      llama_config longer = small;
      longer.layers = 4, longer.layer_groups = {2, 4, 2, 2};
      CHECK(loads(longer, &some).find("layers.3.attention_norm is read from tensor") != std::string::npos);
    });
  }
}

TEST_CASE("a checkpoint of the whole model is refused by a pruned one, with the way out") {
  const weft_test::temporary_folder here;
  const kept_heads last{{3}, {0}, {2}};
  launch<sharded>({}, [&](context& ctx) {
    llama<sharded> model(ctx, grouped);
    trainer t(ctx, model, adamw{});
    save_checkpoint(ctx, t, here / "state");
  });
  for (const kept_heads& kept : {some, last})
    launch<sharded>({.dp = 2}, [&](context& ctx) {
      llama<sharded> small(ctx, pruned(grouped, kept));
      trainer t(ctx, small, adamw{});
      is_the_sentence(said_by([&] { load_checkpoint(ctx, t, here / "state"); }), "weights/layers.0.query", 8,
                      int(kept[0].size()) * 2, by_stores);
    });
}

TEST_CASE("a gpt2's folder, whose queries, keys and values lie in one tensor") {
  const weft_test::temporary_folder here;
  write_whole<sharded, gpt2_of>(gpt, here / "whole");
  is_the_sentence(of_folder<gpt2_of>({.tp = 2}, gpt, some, here / "whole"), "transformer.h.0.attn.c_attn.weight", 4, 2,
                  by_files);
  reads_what_stays<sharded, gpt2_of>({.dp = 2, .tp = 2}, here / "whole", gpt, some);
}

TEST_CASE("weights in few bits are read as the numbers that they stand for") {
  const auto llama_folder = weft_test::source_file("pretrained/nf4"),
             gpt2_folder = weft_test::source_file("pretrained/gpt2_int8");
  reads_what_stays<sharded, llama_of>({.dp = 2}, llama_folder, read_llama_config(llama_folder), {{1}});
  reads_what_stays<sharded, gpt2_of>({.tp = 2}, gpt2_folder, read_gpt2_config(gpt2_folder), {{1, 3}});
}
