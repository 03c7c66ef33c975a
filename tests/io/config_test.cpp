// config.json of Hugging Face's folders: what is read, what is written, and which fields are refused.
#include <doctest/doctest.h>

#include <weft/io/gpt2_folder.hpp>
#include <weft/io/llama_folder.hpp>

#include "../said_by.hpp"
#include "../temporary.hpp"

using namespace weft;
using weft_test::said_by;

namespace {

nlohmann::json llama_json(const std::string& family = "llama") {
  return {{"model_type", family},     {"hidden_act", "silu"},   {"hidden_size", 24},
          {"intermediate_size", 40},  {"num_hidden_layers", 3}, {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"vocab_size", 99},       {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-6}};
}
nlohmann::json gpt2_json() {
  return {{"model_type", "gpt2"}, {"n_embd", 24},      {"n_layer", 3},
          {"n_head", 4},          {"n_positions", 64}, {"vocab_size", 99}};
}

std::string refused(const nlohmann::json& j) {
  return said_by([&] { parse_llama_config(j, "f"); });
}
nlohmann::json with(nlohmann::json j, const nlohmann::json& more) {
  j.update(more);
  return j;
}
std::string refused(const nlohmann::json& more, const std::string& family) {
  return refused(with(llama_json(family), more));
}

}  // namespace

TEST_CASE("fields are read, and what isn't said is what transformers takes") {
  const llama_config c = parse_llama_config(llama_json(), "f");
  CHECK(c == llama_config{.layers = 3,
                          .hidden = 24,
                          .heads = 4,
                          .kv_heads = 2,
                          .ffn = 40,
                          .vocab = 99,
                          .max_seq = 64,
                          .norm_eps = 1e-6});
  CHECK(parse_llama_config(with(llama_json(), {{"num_key_value_heads", nullptr}}), "f").resolved().kv_heads == 4);
  CHECK(parse_llama_config(with(llama_json(), {{"rope_theta", 5e5}}), "f").rope_theta == 5e5);
  CHECK(parse_llama_config(llama_json("qwen2"), "f").qkv_bias);
  CHECK(parse_llama_config(llama_json("qwen3"), "f").qk_norm);
  CHECK(parse_llama_config(llama_json("qwen3"), "f").head_dim == 128);
  CHECK(parse_llama_config(with(llama_json("qwen2"), {{"sliding_window", 32}, {"use_sliding_window", false}}), "f")
            .window == 0);
  CHECK(parse_llama_config(with(llama_json("mistral"), {{"sliding_window", 5}}), "f").window == 5);
  CHECK(parse_llama_config(with(llama_json("mistral"), {{"sliding_window", nullptr}}), "f").window == 0);
  CHECK(parse_llama_config(llama_json("mistral"), "f").window == 0);  // 4096, longer than its sequences
  CHECK(parse_llama_config(with(llama_json("mistral"), {{"max_position_embeddings", 8192}}), "f").window == 4096);
  const gpt2_config g = parse_gpt2_config(gpt2_json(), "f");
  CHECK(g == gpt2_config{.layers = 3, .hidden = 24, .heads = 4, .vocab = 99, .max_seq = 64});
}

TEST_CASE(
    "windows of Qwen's layers are read as transformers reads them, and what it has no order for here is refused") {
  for (const char* const family : {"qwen2", "qwen3"}) {
    const auto windows = [&](const nlohmann::json& more) {
      const llama_config c = parse_llama_config(with(llama_json(family), more), "f");
      return std::pair(c.window, c.window_from);
    };
    const auto layers = [](const char* first, const char* second, const char* third) {
      const auto type = [](const char* word) { return std::string(word) + "_attention"; };
      return nlohmann::json{type(first), type(second), type(third)};
    };
    using both = std::pair<std::int64_t, std::int64_t>;
    const both none(0, 0);
    CHECK(windows({{"sliding_window", 5}, {"max_window_layers", 1}}) == none);  // use_sliding_window is false
    nlohmann::json used{{"use_sliding_window", true}, {"sliding_window", 5}};
    CHECK(windows(used) == none);  // from layer 28 on
    CHECK(windows(with(used, {{"max_window_layers", 0}})) == both(5, 0));
    CHECK(windows(with(used, {{"max_window_layers", 2}})) == both(5, 2));
    CHECK(windows(with(used, {{"max_window_layers", 3}})) == none);
    CHECK(windows(with(used, {{"max_window_layers", 1}, {"sliding_window", nullptr}})) == none);
    CHECK(windows(with(used, {{"max_window_layers", 1}, {"sliding_window", 64}})) == none);  // as long as its texts
    CHECK(windows({{"use_sliding_window", true}, {"max_window_layers", 1}}) == none);        // 4096
    CHECK(windows({{"layer_types", layers("full", "full", "full")}}) == none);
    CHECK(windows(with(used, {{"layer_types", layers("full", "sliding", "sliding")}})) == both(5, 1));
    CHECK(windows(with(used, {{"layer_types", layers("sliding", "sliding", "sliding")}, {"max_window_layers", 2}})) ==
          both(5, 0));
    const auto refuses = [&](const nlohmann::json& more, const std::string& why) {
      CHECK(refused(more, family).find("the file f: " + why) == 0);
    };
    const auto types = [](const nlohmann::json& list) { return "layer_types is " + list.dump() + ", and has to be "; };
    const auto mixed = layers("sliding", "full", "sliding"), other = layers("full", "full", "linear"),
               last = layers("full", "full", "sliding");
    refuses(with(used, {{"layer_types", mixed}}), types(mixed) + "full_attention for all layers, or for the first of");
    refuses(with(used, {{"layer_types", other}}), types(other) + "full_attention for all layers, or for the first of");
    refuses(with(used, {{"layer_types", {"full_attention"}}}), types({"full_attention"}) + "a list for 3 layers");
    refuses(with(used, {{"layer_types", 3}}), types(3) + "a list for 3 layers");
    refuses({{"layer_types", last}}, types(last) + "full_attention for all layers, or use_sliding_window true");
    refuses(with(used, {{"layer_types", last}, {"sliding_window", nullptr}}),
            types(last) + "full_attention for all layers, or use_sliding_window true");
    refuses(with(used, {{"max_window_layers", -1}}), "max_window_layers is -1, and has to be 0 or more");
    refuses(with(used, {{"sliding_window", -1}}), "sliding_window is -1, and has to be 0 or more");
  }
  for (const std::int64_t from : {-1, 2})
    CHECK(said_by([&] {
            llama_config{.layers = 2, .window = 3, .window_from = from}.resolved();
          }).find("window_from is " + std::to_string(from) + ", with a window of 3 in 2 layers") == 0);
  CHECK(said_by([] { llama_config{.window_from = 1}.resolved(); }).find("window_from is 1, with a window of 0") == 0);
}

TEST_CASE("scalings of positions are read in their old form and in their new one") {
  const nlohmann::json llama3{{"rope_type", "llama3"},
                              {"factor", 8},
                              {"low_freq_factor", 1},
                              {"high_freq_factor", 4},
                              {"original_max_position_embeddings", 16}};
  const llama_config old = parse_llama_config(with(llama_json(), {{"rope_theta", 5e5}, {"rope_scaling", llama3}}), "f");
  CHECK(old.rope_scaling == rope_scaling{.kind = rope_kind::llama3, .factor = 8, .original_max_seq = 16});
  CHECK(old.rope_theta == 5e5);
  CHECK(parse_llama_config(with(llama_json(), {{"rope_parameters", with(llama3, {{"rope_theta", 5e5}})}}), "f") == old);
  const auto linear =
      parse_llama_config(with(llama_json(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}), "f");
  CHECK(linear.rope_scaling.kind == rope_kind::linear);

  CHECK(refused({{"rope_scaling", {{"type", "longrope"}, {"factor", 2}}}}, "llama") ==
        "the file f: rope_scaling.rope_type is \"longrope\", and has to be default, linear, dynamic, yarn or llama3");
  CHECK(refused({{"rope_scaling", {{"type", "linear"}}}}, "llama") == "the file f has no field rope_scaling.factor");
  CHECK(refused({{"rope_scaling", {{"type", "linear"}, {"factor", 2}, {"beta", 1}}}}, "llama")
            .find("fields that aren't known here: rope_scaling.beta") != std::string::npos);
  CHECK(refused({{"rope_scaling", {{"type", "linear"}, {"rope_type", "yarn"}, {"factor", 2}}}}, "llama") ==
        "the file f: rope_scaling.type is \"linear\", and has to be what rope_type says, or not there");
  CHECK(refused({{"rope_theta", 2}, {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 3}}}}, "llama") ==
        "the file f: rope_parameters.rope_theta is 3.0, and has to be the field rope_theta's value, or not there");
  CHECK(refused({{"rope_scaling", 3}}, "llama") == "the file f: rope_scaling is no object of JSON, { ... }");

  // Both forms at once, as they are written for old and new readers: the same, or refused.
  const auto both = [&](nlohmann::json before, nlohmann::json now) {
    return with(llama_json(), {{"rope_theta", 5e5}, {"rope_scaling", before}, {"rope_parameters", now}});
  };
  const nlohmann::json now = with(llama3, {{"rope_theta", 5e5}});
  CHECK(parse_llama_config(both(llama3, now), "f") == old);
  CHECK(parse_llama_config(both(now, now), "f") == old);
  CHECK(parse_llama_config(both(nullptr, now), "f") == old);
  CHECK(
      refused(both(with(llama3, {{"factor", 4}}), now)).find("and has to be what rope_parameters say, or not there") !=
      std::string::npos);
  CHECK(refused(with(llama_json(), {{"rope_scaling", with(llama3, {{"rope_theta", 3}})}, {"rope_parameters", now}}))
            .find("has to be what rope_parameters say") != std::string::npos);
}

TEST_CASE(
    "dynamic scaling begins beyond max_position_embeddings, as in transformers, and reaches as far as its factor") {
  const nlohmann::json dynamic{{"type", "dynamic"}, {"factor", 2.5}};
  const llama_config c = parse_llama_config(with(llama_json(), {{"rope_scaling", dynamic}}), "f");
  CHECK(c.rope_scaling == rope_scaling{.kind = rope_kind::dynamic, .factor = 2.5, .original_max_seq = 64});
  CHECK(c.max_seq == 160);
  CHECK(parse_llama_config(with(llama_json("mistral"), {{"rope_scaling", dynamic}, {"sliding_window", 100}}), "f")
            .window == 100);
  const nlohmann::json written = nlohmann::json::parse(write_config(c, dtype::f32));
  CHECK(written.at("max_position_embeddings") == 64);
  CHECK(parse_llama_config(written, "f").resolved() == c.resolved());
  CHECK(parse_llama_config(
            with(llama_json(), {{"rope_scaling", with(dynamic, {{"original_max_position_embeddings", 64}})}}), "f") ==
        c);
  CHECK(
      refused({{"rope_scaling", with(dynamic, {{"original_max_position_embeddings", 32}})}}, "llama") ==
      "the file f: rope_scaling.original_max_position_embeddings is 32, and has to be max_position_embeddings, 64, or "
      "not there: transformers looks at that alone");
}

TEST_CASE("positions are written for readers of both forms, and no token that begins or ends a text") {
  llama_config c{.max_seq = 64, .rope_theta = 5e5};
  nlohmann::json plain = nlohmann::json::parse(write_config(c, dtype::f32));
  CHECK(plain.at("rope_theta") == 5e5);
  CHECK(plain.at("rope_scaling").is_null());
  CHECK(plain.at("rope_parameters") == nlohmann::json{{"rope_type", "default"}, {"rope_theta", 5e5}});
  for (const char* const name : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    CHECK(plain.at(name).is_null());
    CHECK(nlohmann::json::parse(write_config(gpt2_config{}, dtype::f32)).at(name).is_null());
  }
  c.rope_scaling = {.kind = rope_kind::linear, .factor = 2};
  plain = nlohmann::json::parse(write_config(c, dtype::f32));
  CHECK(plain.at("rope_scaling") == nlohmann::json{{"rope_type", "linear"}, {"factor", 2.0}});
  CHECK(plain.at("rope_parameters") == nlohmann::json{{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5e5}});
}

// A published model's fields, and all that transformers writes where it is asked for the defaults too.
TEST_CASE("fields that say nothing of what a model computes are passed over, and refused where they say another") {
  const llama_config c = parse_llama_config(llama_json(), "f");
  const nlohmann::json smollm{{"_name_or_path", "./checkpoints"},
                              {"architectures", {"LlamaForCausalLM"}},
                              {"attention_bias", false},
                              {"attention_dropout", 0.0},
                              {"bos_token_id", 1},
                              {"eos_token_id", {2, 7}},
                              {"pad_token_id", 2},
                              {"initializer_range", 0.02},
                              {"is_llama_config", true},
                              {"mlp_bias", false},
                              {"pretraining_tp", 2},
                              {"rope_interleaved", false},
                              {"rope_scaling", nullptr},
                              {"rope_theta", 10000},
                              {"tie_word_embeddings", false},
                              {"torch_dtype", "bfloat16"},
                              {"transformers.js_config", {{"kv_cache_dtype", {{"fp16", "float16"}}}}},
                              {"transformers_version", "4.42.3"},
                              {"use_cache", true},
                              {"unsloth_version", "2025.1"},
                              {"quantization_config", nullptr},
                              {"some_new_thing", nullptr}};
  CHECK(parse_llama_config(with(llama_json(), smollm), "f") == c);
  const nlohmann::json all{{"is_encoder_decoder", false},
                           {"add_cross_attention", false},
                           {"pruned_heads", nlohmann::json::object()},
                           {"chunk_size_feed_forward", 0},
                           {"id2label", {{"0", "LABEL_0"}}},
                           {"output_attentions", false},
                           {"return_dict", true},
                           {"do_sample", false},
                           {"max_length", 4096},
                           {"temperature", 0.7},
                           {"tokenizer_class", "LlamaTokenizer"},
                           {"gradient_checkpointing", false}};
  CHECK(parse_llama_config(with(llama_json(), all), "f") == c);
  CHECK(parse_gpt2_config(with(gpt2_json(), all), "f") == parse_gpt2_config(gpt2_json(), "f"));
  const auto refuses = [](const nlohmann::json& more, const std::string& why) {
    CHECK(refused(more, "llama") == "the file f: " + why + ": the library's model has nothing else");
  };
  refuses({{"rope_interleaved", true}}, "rope_interleaved is true, and has to be false");
  refuses({{"partial_rotary_factor", 0.5}}, "partial_rotary_factor is 0.5, and has to be 1");
  refuses({{"rope_parameters", {{"partial_rotary_factor", 0.5}}}},
          "rope_parameters.partial_rotary_factor is 0.5, and has to be 1");
  refuses({{"mlp_bias", true}}, "mlp_bias is true, and has to be false");
  refuses({{"is_encoder_decoder", true}}, "is_encoder_decoder is true, and has to be false");
  refuses({{"pruned_heads", {{"1", {0}}}}}, "pruned_heads is {\"1\":[0]}, and has to be {}");
  refuses({{"use_mrope", true}}, "use_mrope is true, and has to be false");
}

TEST_CASE("fields that are missing, unknown, of the wrong type, or of another model are named") {
  for (const char* name : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
                           "max_position_embeddings"}) {
    nlohmann::json j = llama_json();
    j.erase(name);
    CHECK(refused(j) == std::string("the file f has no field ") + name);
    j[name] = "8";
    CHECK(refused(j) == std::string("the file f: ") + name + " is \"8\", and has to be a whole number");
    j[name] = 8.5;
    CHECK(refused(j) == std::string("the file f: ") + name + " is 8.5, and has to be a whole number");
    j[name] = std::uint64_t{1} << 63;
    CHECK(refused(j) == std::string("the file f: ") + name + " is 9223372036854775808, and has to be a whole number");
  }
  CHECK(
      refused({{"new_thing", 1}, {"other", 2}}, "llama") ==
      "the file f has fields that aren't known here: new_thing, other; a model read without them might be another one");
  CHECK(refused({{"hidden_act", "gelu"}}, "llama") ==
        "the file f: hidden_act is \"gelu\", and has to be \"silu\": the library's model has nothing else");
  CHECK(refused({{"attention_bias", true}}, "llama") ==
        "the file f: attention_bias is true, and has to be false: the library's model has nothing else");
  CHECK(refused(nlohmann::json::object(), "mixtral") ==
        "the file f: model_type is \"mixtral\", and has to be llama, mistral, qwen2 or qwen3 for this model");
  CHECK(refused({{"tie_word_embeddings", 1}}, "llama") ==
        "the file f: tie_word_embeddings is 1, and has to be true or false");
  CHECK(refused(nlohmann::json::array()) == "the file f is no object of JSON, { ... }");
  CHECK(said_by([] {
          parse_gpt2_config(with(gpt2_json(), {{"embd_pdrop", 0.2}}), "f");
        }) == "the file f: embd_pdrop is 0.2, and has to be what resid_pdrop is: one rate is offered for both");
  CHECK(said_by([] {
          parse_gpt2_config(with(gpt2_json(), {{"activation_function", "relu"}}), "f");
        }).find("activation_function is \"relu\"") != std::string::npos);
}

TEST_CASE("what is written is read as the same model, from a folder too") {
  const weft_test::temporary_folder here;
  write_file(here / "config.json", write_config(llama_config{.max_seq = 77}, dtype::f32));
  CHECK(read_llama_config(here.path()).max_seq == 77);
  CHECK(weight_names_of(llama_config{}).lines.size() == 17);
  write_file(here / "config.json", write_config(gpt2_config{.max_seq = 78}, dtype::f32));
  CHECK(read_gpt2_config(here.path()).max_seq == 78);
  CHECK(weight_names_of(gpt2_config{}).lines.size() == 21);
  llama_config c{
      .layers = 3, .hidden = 24, .heads = 4, .kv_heads = 2, .head_dim = 8, .ffn = 40, .vocab = 99, .max_seq = 64};
  const auto same = [](const llama_config& model) {
    CHECK(parse_llama_config(nlohmann::json::parse(write_config(model, dtype::bf16)), "f").resolved() ==
          model.resolved());
  };
  same(c);
  for (const rope_kind kind : {rope_kind::linear, rope_kind::dynamic, rope_kind::yarn, rope_kind::llama3}) {
    c.rope_scaling = {.kind = kind, .factor = 4, .original_max_seq = 16, .beta_slow = 2, .low_freq_factor = 1.5};
    if (kind != rope_kind::yarn) c.rope_scaling.beta_slow = 1;
    if (kind != rope_kind::llama3) c.rope_scaling.low_freq_factor = 1;
    if (kind == rope_kind::linear) c.rope_scaling.original_max_seq = 0;  // of no consequence, and not written
    same(c);
  }
  c.rope_scaling = {};
  c.qk_norm = c.tied_embeddings = true;
  same(c);
  c.window = 7;
  same(c);
  c.window_from = 2;
  same(c);
  c.qk_norm = false;
  CHECK(said_by([&] { write_config(c, dtype::f32); }).find("only Qwen 2 and 3") != std::string::npos);
  c.window_from = 0;
  same(c);
  c.qkv_bias = c.qk_norm = true;
  CHECK(said_by([&] { write_config(c, dtype::f32); }).find("both qkv_bias and qk_norm") != std::string::npos);
  c.qk_norm = false, c.window_from = 1;
  CHECK(said_by([&] { write_config(c, dtype::f32); }).find("Qwen 2 has heads of hidden / heads features, 6") !=
        std::string::npos);
  c.head_dim = 6;
  same(c);
  gpt2_config g{
      .layers = 2, .hidden = 24, .heads = 4, .vocab = 99, .max_seq = 64, .dropout = 0.25, .tied_embeddings = false};
  CHECK(parse_gpt2_config(nlohmann::json::parse(write_config(g, dtype::f32)), "f").resolved() == g.resolved());
}

TEST_CASE("sizes whose products 64 bits don't hold are refused") {
  const std::int64_t huge = std::int64_t{1} << 62;
  const auto said = [](const auto& config) { return said_by([&] { config.resolved(); }); };
  CHECK(said(parse_gpt2_config(with(gpt2_json(), {{"n_embd", huge}}), "f")) ==
        "hidden is 4611686018427387904; it has to be at most 2^30");
  CHECK(said(parse_llama_config(with(llama_json(), {{"hidden_size", huge}, {"intermediate_size", 0}}), "f")) ==
        "hidden is 4611686018427387904; it has to be at most 2^30");
}
