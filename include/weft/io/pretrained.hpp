// Models from Hugging Face's folders, and to them. Invariant: a folder that is written holds one whole model, and is
// read by transformers.
#pragma once

#include <weft/io/gpt2_folder.hpp>
#include <weft/io/llama_folder.hpp>
#include <weft/io/weight_files.hpp>
#include <weft/parallel/parameter_store.hpp>

namespace weft {

/// A model with a folder's weights, to be asked: no gradients, no optimizer. Its weights are stored as the strategy's
/// sharding policy says. Saved with `{.like = folder}`, it takes the folder's tokenizer along.
template <class Model>
class pretrained {
 public:
  using strategy = typename Model::strategy;
  using store_type = parameter_store<typename strategy::backend, typename strategy::precision>;

  /// By the names of the configuration's family. Throws weft::file_error as load_weights does.
  template <class Config>
  pretrained(context& ctx, const Config& config, const std::string& from)
      : pretrained(ctx, config, from, weight_names_of(config)) {}
  /// By another family's names.
  template <class Config>
  pretrained(context& ctx, const Config& config, const std::string& from, const weight_names& names)
      : folder(from),
        model(ctx, config),
        store(ctx, frozen(model.registry()), config_of<typename strategy::sharding>()) {
    load_weights(ctx, store, safetensors(from), names);
    model.use(store);
  }
  pretrained(const pretrained&) = delete;
  pretrained& operator=(const pretrained&) = delete;

  std::string folder;
  Model model;
  store_type store;

 private:
  static parameter_registry& frozen(parameter_registry& registry) {
    registry.freeze([](const parameter_record&) { return true; });
    return registry;
  }
};

/// The model of a folder of the families Llama 2 and 3, Mistral, Qwen 2 and 3: config.json and safetensors files. All
/// ranks call it. Throws weft::file_error naming what is amiss. For training: read_llama_config, llama, trainer, and
/// load_weights into its store.
template <class S>
pretrained<llama<S>> llama_from_pretrained(context& ctx, const std::string& folder) {
  return {ctx, read_llama_config(folder), folder};
}
/// The same of GPT-2.
template <class S>
pretrained<gpt2<S>> gpt2_from_pretrained(context& ctx, const std::string& folder) {
  return {ctx, read_gpt2_config(folder), folder};
}

namespace detail {

/// What a model's folder has beside weights that are saved as `type`, on the first rank. Where the folder is like
/// itself, it is made whole before.
template <class Model>
folder_texts texts_of(context& ctx, const Model& model, dtype type, const std::string& folder,
                      const std::string& like) {
  folder_texts texts;
  on_all_or_none(ctx, [&] {
    if (!ctx.is_first()) return;
    texts.config() = write_config(model.config(), type);
    if (like.empty()) return;
    std::error_code none;
    if (std::filesystem::equivalent(like, folder, none)) clear_left(files_of_model(folder));
    take_texts(like, texts);
  });
  return texts;
}

}  // namespace detail

/// Writes a model's config.json and weights to a folder, which is made where it isn't there, with weights as `type`;
/// without it as the store keeps master weights. They lie in model.safetensors, or where that would have more than
/// `how.most_bytes`, in several files with model.safetensors.index.json; the tokenizer of `how.like` lies beside them.
/// All ranks call it, and see the folder. Throws weft::failure on all of them when something can't be written on any;
/// the weights that were there are replaced when the new ones are whole.
template <class Model, class Store>
void save_pretrained(context& ctx, const Model& model, Store& store, const std::string& folder,
                     dtype type = dtype_of<typename Store::master>, const folder_settings& how = {}) {
  const detail::folder_texts texts = detail::texts_of(ctx, model, type, folder, how.like);
  const auto all = detail::outgoing_weights(ctx, store, weight_names_of(model.config()), type);
  detail::write_folder<typename Store::backend>(ctx, folder, texts, all, how.most_bytes);
}

}  // namespace weft
