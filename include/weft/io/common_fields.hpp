// Fields of config.json that transformers has in every family, and that say nothing of what a model computes, or have
// one value here. Invariant: one that would make it another model is an error where it says so.
#pragma once

#include <weft/io/json_fields.hpp>

namespace weft {

/// What config.json calls the tokens that begin and end a text, and fill one up.
inline constexpr const char* token_id_fields[] = {"bos_token_id", "eos_token_id", "pad_token_id"};

/// Reads the fields that transformers has in every family's config.json, and what programs leave there that save such
/// folders. Throws weft::file_error where one says that the model is none that reads a text from left to right.
inline void read_common_fields(json_fields& f) {
  f.only("is_encoder_decoder", false);
  f.only("add_cross_attention", false);
  f.only("pruned_heads", nlohmann::json::object());
  for (const char* name : token_id_fields) f.ignore({name});
  f.ignore({"architectures",
            "dtype",
            "torch_dtype",
            "transformers_version",
            "use_cache",
            "_name_or_path",
            "name_or_path",
            "_commit_hash",
            "tokenizer_class",
            "prefix",
            "sep_token_id",
            "decoder_start_token_id",
            "id2label",
            "label2id",
            "num_labels",
            "_num_labels",
            "problem_type",
            "finetuning_task",
            "task_specific_params",
            "output_attentions",
            "output_hidden_states",
            "return_dict",
            "use_return_dict",
            "torchscript",
            "use_bfloat16",
            "tf_legacy_loss",
            "tie_encoder_decoder",
            "chunk_size_feed_forward",
            "gradient_checkpointing",
            "_attn_implementation",
            "_attn_implementation_autoset",
            "attn_implementation",
            "_flash_attn_2_enabled",
            "_experts_implementation",
            "experts_implementation",
            "unsloth_fixed",
            "unsloth_version"});
  // Of how texts are chosen, from when transformers had that here.
  f.ignore({"max_length",
            "min_length",
            "do_sample",
            "early_stopping",
            "num_beams",
            "num_beam_groups",
            "diversity_penalty",
            "temperature",
            "top_k",
            "top_p",
            "typical_p",
            "repetition_penalty",
            "length_penalty",
            "no_repeat_ngram_size",
            "encoder_no_repeat_ngram_size",
            "bad_words_ids",
            "num_return_sequences",
            "output_scores",
            "return_dict_in_generate",
            "forced_bos_token_id",
            "forced_eos_token_id",
            "remove_invalid_values",
            "exponential_decay_length_penalty",
            "suppress_tokens",
            "begin_suppress_tokens",
            "cross_attention_hidden_size"});
}

namespace detail {
/// Makes a config.json say that there are no such tokens: where it says nothing, transformers takes its family's.
inline void write_no_token_ids(nlohmann::ordered_json& config) {
  for (const char* name : token_id_fields) config[name] = nullptr;
}
}  // namespace detail

}  // namespace weft
