// Models from Hugging Face's folders, and to them. Invariant: a folder that is written holds one whole model, and is
// read by transformers.
#pragma once

#include <weft/io/gpt2_folder.hpp>
#include <weft/io/llama_folder.hpp>
#include <weft/io/weight_files.hpp>
#include <weft/parallel/parameter_store.hpp>

namespace weft {

/// A model with a folder's weights, to be asked: no gradients, no optimizer. Its weights are stored as the strategy's
/// sharding policy says.
template <class Model>
class pretrained {
 public:
  using strategy = typename Model::strategy;
  using store_type = parameter_store<typename strategy::backend, typename strategy::precision>;

  /// Throws weft::file_error as load_weights does.
  template <class Config>
  pretrained(context& ctx, const Config& config, const std::string& folder)
      : model(ctx, config), store(ctx, frozen(model.registry()), config_of<typename strategy::sharding>()) {
    load_weights(ctx, store, safetensors(folder), weight_names_of(config));
    model.use(store);
  }
  pretrained(const pretrained&) = delete;
  pretrained& operator=(const pretrained&) = delete;

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

/// config.json of a model whose weights are saved as `type`, on the first rank.
template <class Model>
std::string config_text(context& ctx, const Model& model, dtype type) {
  std::string text;
  on_all_or_none(ctx, [&] {
    if (ctx.is_first()) text = write_config(model.config(), type);
  });
  return text;
}

}  // namespace detail

/// Writes a model's config.json and weights to a folder, which is made where it isn't there, with weights as `type`;
/// without it as the store keeps master weights. They lie in model.safetensors, or where that would have more than
/// `most_bytes`, in several files with model.safetensors.index.json. All ranks call it, and see the folder. Throws
/// weft::failure on all of them when something can't be written on any; the weights that were there are replaced when
/// the new ones are whole.
template <class Model, class Store>
void save_pretrained(context& ctx, const Model& model, Store& store, const std::string& folder,
                     dtype type = dtype_of<typename Store::master>, std::int64_t most_bytes = 50'000'000'000) {
  const std::string config = detail::config_text(ctx, model, type);
  const auto all = detail::outgoing_weights(ctx, store, weight_names_of(model.config()), type);
  detail::write_folder<typename Store::backend>(ctx, folder, config, all, most_bytes);
}

}  // namespace weft
