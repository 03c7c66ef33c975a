// Weights to files and back: under any strategy the same bytes, and what can't be read or written said on every rank.
#include <filesystem>
#include <optional>

#include <doctest/doctest.h>

#include <weft/io/gpt2_folder.hpp>
#include <weft/io/llama_folder.hpp>
#include <weft/io/save_weights.hpp>
#include <weft/weft.hpp>

#include "../said_by.hpp"
#include "../temporary.hpp"

using namespace weft;
using weft_test::said_by;

namespace {

template <class S>
using llama_of = llama<S>;
template <class S>
using gpt2_of = gpt2<S>;

constexpr llama_config small_llama{
    .layers = 3, .hidden = 24, .heads = 4, .kv_heads = 2, .ffn = 40, .vocab = 99, .max_seq = 16};
constexpr gpt2_config small_gpt2{.layers = 3, .hidden = 24, .heads = 4, .vocab = 99, .max_seq = 16};

const weight_names& names_of(const llama_config&) { return llama_weight_names; }
const weight_names& names_of(const gpt2_config&) { return gpt2_weight_names; }

// The bytes of a file that a model of this strategy saves, which loaded `from` first; empty: its initial weights.
template <class S, template <class> class Model, class Config>
std::string saved(const degrees& ranks, const Config& config, const std::string& from = {},
                  std::optional<dtype> type = {}) {
  const weft_test::temporary_folder here;
  const std::string path = here / "model.safetensors";
  launch<S>(ranks, [&](context& ctx) {
    Model<S> model(ctx, config);
    trainer t(ctx, model);
    if (!from.empty()) load_weights(ctx, t.store(), safetensors(from), names_of(config));
    if (type)
      save_weights(ctx, t.store(), path, names_of(config), *type);
    else
      save_weights(ctx, t.store(), path, names_of(config));
  });
  CHECK(!std::filesystem::exists(detail::unfinished(path)));
  return read_file(path);
}

template <template <class> class Model, class Config>
void under_any_strategy(const Config& config) {
  using whole = strategy<mesh<dp, tp, pp>>;
  using sharded = strategy<mesh<dp, tp, pp>, zero3, bf16_mixed>;
  const weft_test::temporary_folder here;
  const std::string path = here / "a.safetensors";
  const std::string one = saved<whole, Model>({}, config);
  write_file(path, one);
  CHECK(saved<whole, Model>({.dp = 2, .tp = 2, .pp = 2}, config) == one);
  CHECK(saved<sharded, Model>({.dp = 3, .tp = 2}, config) ==
        one);  // uneven: the vocabulary, and shares of flat buffers
  Config other = config;
  other.init_stddev = 0.5;
  CHECK(saved<whole, Model>({}, other) != one);
  CHECK(saved<whole, Model>({.dp = 2, .tp = 2, .pp = 2}, other, path) == one);
  CHECK(saved<sharded, Model>({.dp = 3, .tp = 2}, other, path) == one);
}

}  // namespace

TEST_CASE("what one strategy saves, every other loads and saves in the same bytes") {
  SUBCASE("llama") { under_any_strategy<llama_of>(small_llama); }
  SUBCASE("llama, tied") {
    llama_config tied = small_llama;
    tied.tied_embeddings = tied.qkv_bias = true;
    under_any_strategy<llama_of>(tied);
  }
  SUBCASE("gpt2: transposed, three parameters in a tensor") { under_any_strategy<gpt2_of>(small_gpt2); }
}

TEST_CASE("numbers are saved as the type that is asked for, rounded once") {
  using S = strategy<mesh<>, fp64>;
  const weft_test::temporary_folder here;
  const std::string in_double = saved<S, llama_of>({}, small_llama);  // as master weights are kept
  write_file(here / "f64", in_double);
  for (const dtype type : {dtype::f32, dtype::bf16, dtype::f16}) {
    CAPTURE(name_of(type));
    write_file(here / "less", saved<S, llama_of>({}, small_llama, here / "f64", type));
    const safetensors exact(here / "f64"), less(here / "less");
    for (const auto& one : exact.tensors()) {  // names of their own, which clang 14 captures
      const auto& name = one.first;
      const auto& tensor = one.second;
      const mapped_tensor* const other = less.find(name);
      REQUIRE(other);
      CHECK(other->entry->type->type == type);
      const std::uint64_t n = (tensor.entry->end - tensor.entry->begin) / sizeof(double);
      detail::visit_floating(type, [&]<class T>(T) {
        for (std::uint64_t i = 0; i < n; ++i) {
          double a;
          T b;
          std::memcpy(&a, tensor.data + i * sizeof a, sizeof a);
          std::memcpy(&b, other->data + i * sizeof b, sizeof b);
          const auto rounded = static_cast<T>(static_cast<accumulate_t<T>>(a));
          if (std::memcmp(&rounded, &b, sizeof b) != 0) FAIL(name, " ", i);
        }
      });
    }
  }
}

TEST_CASE("weights that aren't the model's are refused with the tensor's name") {
  using S = strategy<mesh<tp>>;
  const weft_test::temporary_folder here;
  const std::string path = here / "w";
  write_file(path, saved<S, llama_of>({}, small_llama));
  const auto said = [&](const llama_config& config, const weight_names& names) {
    return said_by([&] {
      launch<S>({.tp = 2}, [&](context& ctx) {
        llama<S> model(ctx, config);
        trainer t(ctx, model);
        load_weights(ctx, t.store(), safetensors(path), names);
      });
    });
  };
  llama_config c = small_llama;
  CHECK(said(c, llama_weight_names) == "nothing");
  c.ffn = 44;
  CHECK(said(c, llama_weight_names)
            .find("tensor model.layers.0.mlp.gate_proj.weight in the file " + path +
                  " is [40, 24], and parameter layers.0.gate needs [44, 24]: these weights are "
                  "of another configuration") != std::string::npos);
  c = small_llama;
  c.layers = 2;
  CHECK(said(c, llama_weight_names)
            .find("the weights have tensors that the model doesn't read, so it is of another configuration: "
                  "model.layers.2.") != std::string::npos);
  c.layers = 4;
  CHECK(
      said(c, llama_weight_names)
          .find(
              "parameter layers.3.attention_norm is read from tensor model.layers.3.input_layernorm.weight, which the "
              "weights don't have") != std::string::npos);
  CHECK(said(small_llama, {llama_weight_names.lines.first(1)})
            .find("parameter layers.0.attention_norm has no tensor in such files") != std::string::npos);
}

TEST_CASE("a table of names that can't be meant is refused before a file is touched") {
  const weft_test::temporary_folder here;
  const std::string path = here / "w";
  const auto said = [&](auto change) {
    std::vector<weight_name> lines(llama_weight_names.lines.begin(), llama_weight_names.lines.end());
    for (weight_name& line : lines) change(line);
    return said_by([&] {
      launch<strategy<mesh<dp, tp>, zero3>>({.dp = 2, .tp = 2}, [&](context& ctx) {
        llama<strategy<mesh<dp, tp>, zero3>> model(ctx, small_llama);
        trainer t(ctx, model);
        save_weights(ctx, t.store(), path, weight_names{lines});
      });
    });
  };
  const auto refused = [&](const char* why, auto change) {
    CHECK_MESSAGE(said(change).find(why) != std::string::npos, said(change));
    CHECK(!std::filesystem::exists(path));
  };
  const auto to_gate = [](auto f) {
    return [f](weight_name& line) { line.parameter == "layers.#.gate" ? f(line) : void(); };
  };
  refused("part 2 of 2 is none", to_gate([](weight_name& w) { w.part = 2, w.of_parts = 2; }));
  refused("part -1 of 1 is none", to_gate([](weight_name& w) { w.part = -1; }));
  refused("part 0 of 0 is none", to_gate([](weight_name& w) { w.of_parts = 0; }));
  refused("3 of its dimensions make the tensor's last, and it has 2", to_gate([](weight_name& w) { w.columns = 3; }));
  refused("-1 of its dimensions", to_gate([](weight_name& w) { w.columns = -1; }));
  refused("a tensor's name isn't empty", [](weight_name& w) {
    if (w.parameter == "norm") w.tensor = "";
  });
  refused("has no control characters", to_gate([](weight_name& w) { w.tensor = "a\n#"; }));
  refused("whose bytes are no UTF-8", to_gate([](weight_name& w) { w.tensor = "a\xff#"; }));
  refused("has '#' for a layer's number, and the other of its two names hasn't",
          to_gate([](weight_name& w) { w.tensor = "gate"; }));
  refused("has 2 parts by the table, and only 1 of them are parameters of this model",
          to_gate([](weight_name& w) { w.of_parts = 2; }));
  refused("and \"layers.0.up\" are both part 0 of tensor one0; give each a part of its own in the table",
          [](weight_name& w) {
            (w.parameter == "layers.#.gate" || w.parameter == "layers.#.up") ? void(w.tensor = "one#") : void();
          });
  refused("the table's lines for it have to agree", [](weight_name& w) {
    if (w.parameter == "layers.#.gate") w.tensor = "one#", w.of_parts = 2;
    if (w.parameter == "layers.#.up") w.tensor = "one#", w.of_parts = 2, w.part = 1, w.transposed = true;
  });
  refused("can't have two tensors called \"__metadata__\"", [](weight_name& w) {
    if (w.parameter == "norm") w.tensor = "__metadata__";
  });
  CHECK(said([](weight_name& w) {
          if (w.parameter == "layers.#.gate") w.tensor = "one#", w.of_parts = 2;
          if (w.parameter == "layers.#.up") w.tensor = "one#", w.of_parts = 2, w.part = 1;
        }) == "nothing");
}

TEST_CASE("a file that can't be written is told on every rank, and what was there stays") {
  using S = strategy<mesh<dp>>;
  launch<S>({.dp = 3}, [&](context& ctx) {
    llama<S> model(ctx, small_llama);
    trainer t(ctx, model);
    const std::string path = "/nowhere/at/all/model.safetensors";
    CHECK(said_by([&] { save_weights(ctx, t.store(), path, llama_weight_names); }) ==
          "the file " + path + ".unfinished can't be written: No such file or directory; make its folder first");
    CHECK(said_by([&] { save_weights(ctx, t.store(), path, gpt2_weight_names); }).find("has no tensor in such files") !=
          std::string::npos);
  });
}

TEST_CASE("a folder's index says which file has a tensor") {
  const weft_test::temporary_folder here;
  const auto tensor = [](const std::string& name) {
    safetensors_header h{0, {{name, &safetensors_types[4], {1}}}, {}};
    return write_safetensors_header(h, "f") + name[0];
  };
  write_file(here / "1", tensor("a"));
  write_file(here / "2", tensor("b"));
  const std::string index = here / "model.safetensors.index.json";
  const auto said = [&](const std::string& map) {
    write_file(index, map);
    return said_by([&] { safetensors(here.path()); });
  };
  CHECK(said(R"({"metadata":{},"weight_map":{"a":"1","b":"2"}})") == "nothing");
  const safetensors both(here.path());
  CHECK(*both.find("a")->data == 'a');
  CHECK(*both.find("b")->data == 'b');
  CHECK(!both.find("c"));
  CHECK(said(R"({"weight_map":{"a":"2"}})") ==
        "the file " + index + " says that tensor \"a\" is in 2, which has none of this name");
  CHECK(said(R"({"weight_map":{"a":"../1"}})") ==
        "the file " + index + " says that tensor \"a\" is in \"../1\", which is no name of a file beside it");
  CHECK(said(R"({"weight_map":{"a":3}})") ==
        "the file " + index + " says that tensor \"a\" is in 3, which is no name of a file beside it");
  CHECK(said(R"({"weights":{}})") == "the file " + index + " has no object called weight_map, from tensors to files");
  CHECK(said("[]") == "the file " + index + " has no object called weight_map, from tensors to files");
  CHECK(said(R"({"weight_map":{"a":"3"}})") ==
        "the file " + (here / "3") + " can't be read: No such file or directory; check the path");
  std::filesystem::remove(index);
  CHECK(said_by([&] { safetensors(here.path()); }).find("has neither model.safetensors nor") != std::string::npos);
}
