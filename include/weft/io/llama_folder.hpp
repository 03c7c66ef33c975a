// Llama models in Hugging Face's folders: config.json and the names of weights. Invariant: a field of a configuration
// is read, known to be of no consequence, or an error.
#pragma once

#include <weft/io/common_fields.hpp>
#include <weft/io/config_beside.hpp>
#include <weft/io/pruned_fields.hpp>
#include <weft/io/weight_names.hpp>
#include <weft/nn/llama.hpp>

namespace weft {

namespace detail {
inline constexpr weight_name llama_lines[] = {
    {"embedding", "model.embed_tokens.weight", 1},
    {"layers.#.attention_norm", "model.layers.#.input_layernorm.weight", 0},
    {"layers.#.query", "model.layers.#.self_attn.q_proj.weight", 1},
    {"layers.#.query_bias", "model.layers.#.self_attn.q_proj.bias", 0},
    {"layers.#.query_norm", "model.layers.#.self_attn.q_norm.weight", 0},
    {"layers.#.key_norm", "model.layers.#.self_attn.k_norm.weight", 0},
    {"layers.#.key", "model.layers.#.self_attn.k_proj.weight", 1},
    {"layers.#.key_bias", "model.layers.#.self_attn.k_proj.bias", 0},
    {"layers.#.value", "model.layers.#.self_attn.v_proj.weight", 1},
    {"layers.#.value_bias", "model.layers.#.self_attn.v_proj.bias", 0},
    {"layers.#.out", "model.layers.#.self_attn.o_proj.weight", 2},
    {"layers.#.mlp_norm", "model.layers.#.post_attention_layernorm.weight", 0},
    {"layers.#.gate", "model.layers.#.mlp.gate_proj.weight", 1},
    {"layers.#.up", "model.layers.#.mlp.up_proj.weight", 1},
    {"layers.#.down", "model.layers.#.mlp.down_proj.weight", 1},
    {"norm", "model.norm.weight", 0},
    {"head", "lm_head.weight", 1},
};
inline constexpr std::string_view llama_ignored[] = {".rotary_emb.inv_freq"};
}  // namespace detail

/// What a parameter of llama is called in such folders.
inline constexpr weight_names llama_weight_names{detail::llama_lines, detail::llama_ignored, "model."};

namespace detail {

/// What an object `within` of a config.json says of positions.
inline void read_rope_object(json_fields& f, const std::string& within, llama_config& c) {
  json_fields r(*f.find(within), f.path(), within);
  const double theta = r.number("rope_theta", c.rope_theta);
  if (f.has("rope_theta") && theta != c.rope_theta)
    r.fail("rope_theta", theta, "the field rope_theta's value, or not there");
  c.rope_theta = theta;
  const std::string kind = r.string("rope_type", r.string("type", "default"));
  if (r.string("type", kind) != kind) r.fail("type", *r.find("type"), "what rope_type says, or not there");
  r.only("partial_rotary_factor", 1);
  rope_scaling& s = c.rope_scaling;
  if (kind == "default") return r.finish();
  const std::pair<const char*, rope_kind> kinds[] = {{"linear", rope_kind::linear},
                                                     {"dynamic", rope_kind::dynamic},
                                                     {"yarn", rope_kind::yarn},
                                                     {"llama3", rope_kind::llama3}};
  for (const auto& [name, value] : kinds)
    if (kind == name) s.kind = value;
  if (s.kind == rope_kind::none) r.fail("rope_type", kind, "default, linear, dynamic, yarn or llama3");
  s.factor = r.number("factor");
  s.original_max_seq = r.whole_number("original_max_position_embeddings", 0);
  if (s.kind == rope_kind::dynamic) {  // transformers stretches beyond max_position_embeddings
    if (s.original_max_seq != 0 && s.original_max_seq != c.max_seq)
      r.fail("original_max_position_embeddings", s.original_max_seq,
             text("max_position_embeddings, ", c.max_seq, ", or not there: transformers looks at that alone"));
    s.original_max_seq = c.max_seq;
    const double longest = s.factor * static_cast<double>(c.max_seq);
    if (longest < 1e15) c.max_seq = static_cast<std::int64_t>(std::llround(longest));
  }
  if (s.kind == rope_kind::yarn) {
    s.attention_factor = r.number("attention_factor", 0);
    s.beta_fast = r.number("beta_fast", 32), s.beta_slow = r.number("beta_slow", 1);
    r.only("truncate", true);
    r.ignore({"finetuned"});
  }
  if (s.kind == rope_kind::llama3)
    s.low_freq_factor = r.number("low_freq_factor"), s.high_freq_factor = r.number("high_freq_factor");
  r.finish();
}

}  // namespace detail

/// Sets rope_theta, rope_scaling and, where that is dynamic, max_seq, which has to be set before, by what a config.json
/// says: rope_parameters (from transformers 5 on), or rope_theta and rope_scaling, or both. Throws weft::file_error
/// where these don't say the same, or what isn't offered.
inline void read_rope_fields(json_fields& f, llama_config& c) {
  c.rope_theta = f.number("rope_theta", 10000);
  f.only("rope_interleaved", false);
  f.only("partial_rotary_factor", 1);
  const llama_config before = c;
  const bool both = f.has("rope_parameters") && f.has("rope_scaling");
  if (f.has("rope_parameters")) detail::read_rope_object(f, "rope_parameters", c);
  if (!f.has("rope_scaling")) return;
  llama_config old = before;
  if (both) old.rope_theta = c.rope_theta;
  detail::read_rope_object(f, "rope_scaling", old);
  if (both && old != c) f.fail("rope_scaling", *f.find("rope_scaling"), "what rope_parameters say, or not there");
  c = old;
}

namespace detail {

/// window and window_from of the Qwen families: transformers has a window only where use_sliding_window is true, and
/// then in the layers that layer_types names, or without it in those from max_window_layers on.
inline void read_qwen_window(json_fields& f, llama_config& c) {
  const bool used = f.flag("use_sliding_window", false);
  const std::int64_t window = f.whole_number("sliding_window", f.says_null("sliding_window") ? 0 : 4096);
  std::int64_t from = f.whole_number("max_window_layers", 28);
  if (used && window < 0) f.fail("sliding_window", window, "0 or more");
  if (used && from < 0) f.fail("max_window_layers", from, "0 or more");
  if (const nlohmann::json* const types = f.find("layer_types")) {
    const bool lists = types->is_array() && static_cast<std::int64_t>(types->size()) == c.layers;
    if (!lists) f.fail("layer_types", *types, text("a list for ", c.layers, " layers"));
    from = 0;
    for (const nlohmann::json& t : *types) from += t == "full_attention";
    for (std::int64_t i = 0; i < c.layers; ++i) {
      const nlohmann::json& t = (*types)[static_cast<std::size_t>(i)];
      if (t != (i < from ? "full_attention" : "sliding_attention"))
        f.fail("layer_types", *types,
               "full_attention for all layers, or for the first of them and sliding_attention for the others");
    }
    if (from < c.layers && (!used || window == 0))
      f.fail("layer_types", *types, "full_attention for all layers, or use_sliding_window true with a sliding_window");
  }
  if (used && window > 0 && window < c.max_seq && from < c.layers) c.window = window, c.window_from = from;
}

}  // namespace detail

/// The model that config.json describes, of the families Llama 2 and 3, Mistral, Qwen 2 and 3, or one of them that Weft
/// pruned. Throws weft::file_error naming the field that is missing, unknown here, or of another
/// model than these.
inline llama_config parse_llama_config(const nlohmann::json& said, const std::string& path) {
  json_fields f(said, path);
  const std::string type = f.string("model_type", "llama");
  const bool pruned = detail::is_pruned_type(type);
  const std::string family = unpruned_family(type);
  const bool qwen = family == "qwen2" || family == "qwen3";
  if (family != "llama" && family != "mistral" && !qwen)
    f.fail("model_type", type, "llama, mistral, qwen2 or qwen3 for this model");
  f.only("hidden_act", "silu");
  f.only("attention_bias", false);
  f.only("mlp_bias", false);
  f.only("attention_dropout", 0);
  f.only("use_mrope", false);
  detail::read_quantization(f, path);
  read_common_fields(f);
  f.ignore({"pretraining_tp", "max_sequence_length", "is_llama_config", "transformers.js_config"});
  llama_config c;
  c.qkv_bias = family == "qwen2";
  c.qk_norm = family == "qwen3";
  c.layers = f.whole_number("num_hidden_layers");
  c.hidden = f.whole_number("hidden_size");
  c.heads = f.whole_number("num_attention_heads");
  c.kv_heads = f.whole_number("num_key_value_heads", 0);
  c.head_dim = f.whole_number("head_dim", family == "qwen3" ? 128 : 0);
  c.ffn = f.whole_number("intermediate_size");
  c.vocab = f.whole_number("vocab_size");
  c.max_seq = f.whole_number("max_position_embeddings");
  c.norm_eps = f.number("rms_norm_eps", 1e-6);
  c.init_stddev = f.number("initializer_range", 0.02);
  c.tied_embeddings = f.flag("tie_word_embeddings", false);
  read_rope_fields(f, c);
  if (family == "mistral") {  // of which transformers takes 4096 where nothing is said
    c.window = f.whole_number("sliding_window", said.contains("sliding_window") ? 0 : 4096);
    if (c.window >= c.max_seq) c.window = 0;
  }
  if (qwen) detail::read_qwen_window(f, c);
  if (pruned) c.layer_groups = detail::read_layer_groups(f, c.layers);
  f.finish();
  return c;
}

/// Of the folder's config.json.
inline llama_config read_llama_config(const std::string& folder) {
  return parse_llama_config(read_config_json(folder), folder + "/config.json");
}

namespace detail {

/// What transformers before 5 calls rope_scaling: without rope_theta.
inline nlohmann::ordered_json rope_json(const rope_scaling& s) {
  const char* const kinds[] = {"default", "linear", "dynamic", "yarn", "llama3"};
  nlohmann::ordered_json r{{"rope_type", kinds[static_cast<int>(s.kind)]}};
  if (s.kind == rope_kind::none) return r;
  r["factor"] = s.factor;
  if (s.kind == rope_kind::yarn || s.kind == rope_kind::llama3)
    r["original_max_position_embeddings"] = s.original_max_seq;
  if (s.kind == rope_kind::yarn)
    r["attention_factor"] = s.attention_factor, r["beta_fast"] = s.beta_fast, r["beta_slow"] = s.beta_slow;
  if (s.kind == rope_kind::llama3) r["low_freq_factor"] = s.low_freq_factor, r["high_freq_factor"] = s.high_freq_factor;
  return r;
}

}  // namespace detail

/// config.json of a model whose weights are saved as `type`, of the family that has what it has; with layer_groups it
/// is one that transformers refuses. Throws weft::failure where no family has all of it.
inline std::string write_config(const llama_config& wanted, dtype type) {
  const llama_config c = wanted.resolved();
  require(!c.qkv_bias || !c.qk_norm,
          "no family of transformers has both qkv_bias and qk_norm, so the model's config.json can't be written");
  const bool qwen = c.qkv_bias || c.qk_norm;
  require(qwen || c.window_from == 0,
          "of transformers' families only Qwen 2 and 3, which have qkv_bias or qk_norm, have layers without a window "
          "before those with one, and window_from is ",
          c.window_from, ", so the model's config.json can't be written");
  const char* const family = c.qkv_bias ? "qwen2" : c.qk_norm ? "qwen3" : c.window > 0 ? "mistral" : "llama";
  const char* const architecture = c.qkv_bias     ? "Qwen2ForCausalLM"
                                   : c.qk_norm    ? "Qwen3ForCausalLM"
                                   : c.window > 0 ? "MistralForCausalLM"
                                                  : "LlamaForCausalLM";
  require(!c.qkv_bias || c.head_dim * c.heads == c.hidden, "Qwen 2 has heads of hidden / heads features, ",
          c.hidden / c.heads, ", and the model's have ", c.head_dim, ", so its config.json can't be written");
  const bool dynamic = c.rope_scaling.kind == rope_kind::dynamic, stretched = c.rope_scaling.kind != rope_kind::none;
  const nlohmann::ordered_json old_rope = detail::rope_json(c.rope_scaling);
  nlohmann::ordered_json rope = old_rope;
  rope["rope_theta"] = c.rope_theta;
  nlohmann::ordered_json j{{"architectures", {architecture}},
                           {"model_type", family},
                           {"dtype", detail::torch_name(type)},
                           {"hidden_act", "silu"},
                           {"hidden_size", c.hidden},
                           {"intermediate_size", c.ffn},
                           {"num_hidden_layers", c.layers},
                           {"num_attention_heads", c.heads},
                           {"num_key_value_heads", c.kv_heads},
                           {"vocab_size", c.vocab},
                           {"max_position_embeddings", dynamic ? c.rope_scaling.original_max_seq : c.max_seq},
                           {"rms_norm_eps", c.norm_eps},
                           {"initializer_range", c.init_stddev},
                           {"tie_word_embeddings", c.tied_embeddings},
                           {"rope_parameters", std::move(rope)},
                           {"rope_theta", c.rope_theta},  // transformers before 5 reads these two
                           {"rope_scaling", stretched ? old_rope : nullptr}};
  detail::write_no_token_ids(j);
  if (!c.qkv_bias) j["head_dim"] = c.head_dim;
  if (c.window > 0) j["sliding_window"] = c.window;
  if (c.window > 0 && qwen) j["use_sliding_window"] = true, j["max_window_layers"] = c.window_from;
  detail::write_layer_groups(j, c.layer_groups);
  return j.dump(2) + '\n';
}

/// The weights' names in folders of this configuration's family.
inline const weight_names& weight_names_of(const llama_config&) { return llama_weight_names; }

}  // namespace weft
