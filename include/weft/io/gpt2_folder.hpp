// GPT-2 models in Hugging Face's folders: config.json and the names of weights. Invariant: as in llama_folder.hpp.
#pragma once

#include <weft/io/common_fields.hpp>
#include <weft/io/config_beside.hpp>
#include <weft/io/pruned_fields.hpp>
#include <weft/io/weight_names.hpp>
#include <weft/nn/gpt2.hpp>

namespace weft {

namespace detail {
// Matrices lie by columns (Conv1D), but by rows where bitsandbytes has quantised them; queries, keys and values in one.
inline constexpr weight_name gpt2_lines[] = {
    {"embedding", "transformer.wte.weight", 1},
    {"positions", "transformer.wpe.weight", 1},
    {"layers.#.attention_norm.weight", "transformer.h.#.ln_1.weight", 0},
    {"layers.#.attention_norm.bias", "transformer.h.#.ln_1.bias", 0},
    {"layers.#.query", "transformer.h.#.attn.c_attn.weight", 1, true, 0, 3},
    {"layers.#.key", "transformer.h.#.attn.c_attn.weight", 1, true, 1, 3},
    {"layers.#.value", "transformer.h.#.attn.c_attn.weight", 1, true, 2, 3},
    {"layers.#.query_bias", "transformer.h.#.attn.c_attn.bias", 0, false, 0, 3},
    {"layers.#.key_bias", "transformer.h.#.attn.c_attn.bias", 0, false, 1, 3},
    {"layers.#.value_bias", "transformer.h.#.attn.c_attn.bias", 0, false, 2, 3},
    {"layers.#.out", "transformer.h.#.attn.c_proj.weight", 2, true},
    {"layers.#.out_bias", "transformer.h.#.attn.c_proj.bias", 0},
    {"layers.#.mlp_norm.weight", "transformer.h.#.ln_2.weight", 0},
    {"layers.#.mlp_norm.bias", "transformer.h.#.ln_2.bias", 0},
    {"layers.#.up", "transformer.h.#.mlp.c_fc.weight", 1, true},
    {"layers.#.up_bias", "transformer.h.#.mlp.c_fc.bias", 0},
    {"layers.#.down", "transformer.h.#.mlp.c_proj.weight", 1, true},
    {"layers.#.down_bias", "transformer.h.#.mlp.c_proj.bias", 0},
    {"norm.weight", "transformer.ln_f.weight", 0},
    {"norm.bias", "transformer.ln_f.bias", 0},
    {"head", "lm_head.weight", 1},
};
inline constexpr std::string_view gpt2_ignored[] = {".attn.bias", ".attn.masked_bias"};  // the mask of positions
}  // namespace detail

/// What a parameter of gpt2 is called in such folders.
inline constexpr weight_names gpt2_weight_names{detail::gpt2_lines, detail::gpt2_ignored, "transformer."};

/// The model that config.json describes, in inference: its dropout is that of training (attn_pdrop is not offered, and
/// embd_pdrop and resid_pdrop have to be one). Throws weft::file_error naming the field that is missing, unknown here,
/// or of another model than this one.
inline gpt2_config parse_gpt2_config(const nlohmann::json& said, const std::string& path) {
  json_fields f(said, path);
  const bool pruned = detail::is_pruned_type(f.string("model_type", "gpt2"));
  f.only("model_type", pruned ? "weft_pruned_gpt2" : "gpt2");
  f.only("activation_function", "gelu_new");
  f.only("reorder_and_upcast_attn", false);
  f.only("scale_attn_by_inverse_layer_idx", false);
  f.only("scale_attn_weights", true);
  detail::read_quantization(f, path);
  read_common_fields(f);
  f.ignore({"attn_pdrop", "n_ctx", "output_past", "summary_activation", "summary_first_dropout",
            "summary_proj_to_labels", "summary_type", "summary_use_proj"});
  gpt2_config c;
  c.layers = f.whole_number("n_layer");
  c.hidden = f.whole_number("n_embd");
  c.heads = f.whole_number("n_head");
  c.ffn = f.whole_number("n_inner", 0);
  c.vocab = f.whole_number("vocab_size");
  c.max_seq = f.whole_number("n_positions");
  c.norm_eps = f.number("layer_norm_epsilon", 1e-5);
  c.init_stddev = f.number("initializer_range", 0.02);
  c.dropout = f.number("resid_pdrop", 0.1);
  if (f.number("embd_pdrop", c.dropout) != c.dropout)
    f.fail("embd_pdrop", *f.find("embd_pdrop"), "what resid_pdrop is: one rate is offered for both");
  c.tied_embeddings = f.flag("tie_word_embeddings", true);
  if (pruned) c.layer_groups = detail::read_layer_groups(f, c.layers);
  f.finish();
  return c;
}

/// Of the folder's config.json.
inline gpt2_config read_gpt2_config(const std::string& folder) {
  return parse_gpt2_config(read_config_json(folder), folder + "/config.json");
}

/// config.json of a model whose weights are saved as `type`; with layer_groups it is one that transformers refuses.
inline std::string write_config(const gpt2_config& wanted, dtype type) {
  const gpt2_config c = wanted.resolved();
  nlohmann::ordered_json j{{"architectures", {"GPT2LMHeadModel"}},
                           {"model_type", "gpt2"},
                           {"dtype", detail::torch_name(type)},
                           {"activation_function", "gelu_new"},
                           {"n_embd", c.hidden},
                           {"n_inner", c.ffn},
                           {"n_layer", c.layers},
                           {"n_head", c.heads},
                           {"n_positions", c.max_seq},
                           {"vocab_size", c.vocab},
                           {"layer_norm_epsilon", c.norm_eps},
                           {"initializer_range", c.init_stddev},
                           {"embd_pdrop", c.dropout},
                           {"resid_pdrop", c.dropout},
                           {"attn_pdrop", 0.0},
                           {"tie_word_embeddings", c.tied_embeddings}};
  detail::write_no_token_ids(j);
  detail::write_layer_groups(j, c.layer_groups);
  return j.dump(2) + '\n';
}

/// The weights' names in folders of this configuration's family.
inline const weight_names& weight_names_of(const gpt2_config&) { return gpt2_weight_names; }

}  // namespace weft
