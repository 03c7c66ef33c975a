// Adapters of a model under lora<...>: to and from folders of peft, and merged into the weights. Invariant: merging
// changes what is written and not the store, so there is nothing to undo.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include <weft/io/peft_files.hpp>
#include <weft/io/pretrained.hpp>

namespace weft {

namespace detail {

template <class Model>
constexpr void require_adapters() {
  static_assert(Model::strategy::projections::adapts,
                "weft: this model has no adapters: its strategy needs lora<rank, alpha>");
}

/// Writes adapters and their configuration, its text on the first rank. All ranks call it.
template <class Backend>
void write_adapters(context& ctx, const model_files& files, const std::string& config,
                    const std::vector<outgoing>& all) {
  try {
    const auto bytes = fill_tensors<Backend>(ctx, files.one, all);
    on_all_or_none(ctx, [&] { bytes->sync(); });
    on_all_or_none(ctx, [&] {
      if (!ctx.is_first()) return;
      write_unfinished(files.config, config);
      change_together(files, config, {}, [&] { finish_output(files.one); });
      clear_left(files);
    });
  } catch (...) {  // on all ranks
    clear_after_failure(ctx, files);
    throw;
  }
}

/// This rank's part of every adapter.
template <class Store>
std::vector<outgoing> outgoing_adapters(context& ctx, Store& store, const weight_names& names, dtype type) {
  std::vector<outgoing> all;
  on_all_or_none(ctx, [&] {
    store.each_stored([&](const stored_parameter& p) {
      if (!p.record.adapter || !writes(ctx, p)) return;
      all.push_back(
          {p.weight, p.record.at, p.begin, type, {adapter_tensor(adapter_name_of(names, p.record), p.record.global)}});
    });
  });
  return all;
}

/// Weight -> weight + scale * B A, by two whole factors in a file.
class merging {
 public:
  merging(const safetensors& factors, const std::string& module, double scale)
      : a_(*factors.find(factor_name(module, true))), b_(*factors.find(factor_name(module, false))), scale_(scale) {}

  /// numbers: elements begin ... of this rank's slice of the weight.
  void operator()(const parameter_record& p, std::int64_t begin, std::int64_t count, double* numbers) const {
    const auto rank = static_cast<std::int64_t>(a_.entry->shape[0]),
               inputs = static_cast<std::int64_t>(a_.entry->shape[1]);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = p.at.global_index(begin + i);
      if (at < 0) continue;
      double sum = 0;
      for (std::int64_t k = 0; k < rank; ++k)
        sum += number_of(b_, at / inputs * rank + k) * number_of(a_, k * inputs + at % inputs);
      numbers[i] += scale_ * sum;
    }
  }

 private:
  static double number_of(const mapped_tensor& t, std::int64_t i) {  // of f64
    double x;
    std::memcpy(&x, t.data + i * static_cast<std::int64_t>(sizeof x), sizeof x);
    return x;
  }

  mapped_tensor a_, b_;
  double scale_;
};

}  // namespace detail

/// Writes a model's adapters to a folder in peft's layout, adapter_config.json and adapter_model.safetensors, as
/// numbers of `type`: PeftModel.from_pretrained(base, folder) reads them. All ranks call it, and see the folder, which
/// is made where it isn't there. Throws weft::failure on all of them when something can't be written on any, and
/// weft::file_error where peft has no name for an adapter.
template <class Model, class Store>
void save_adapters(context& ctx, Model& model, Store& store, const std::string& folder, dtype type = dtype::f32) {
  detail::require_adapters<Model>();
  const weight_names& names = weight_names_of(model.config());
  const std::vector<detail::outgoing> all = detail::outgoing_adapters(ctx, store, names, type);
  const bool by_columns =
      std::any_of(names.lines.begin(), names.lines.end(), [](const weight_name& l) { return l.transposed; });
  std::string modules;
  for (const parameter_unit& u : model.registry().units())
    for (const parameter_record& p : u.parameters)
      if (p.adapter) modules += detail::adapter_name_of(names, p).module + '\n';
  const std::vector<std::string> of_ranks = detail::gather_text(ctx, modules);
  const detail::model_files files = detail::files_of_adapters(folder);
  std::string config;
  detail::on_all_or_none(ctx, [&] {
    if (!ctx.is_first()) return;
    detail::make_folder(folder);
    detail::clear_left(files);
    config = detail::adapter_config<typename Model::strategy::projections>(detail::all_lines(of_ranks), by_columns);
  });
  detail::write_adapters<typename Store::backend>(ctx, files, config, all);
}

/// Sets a model's adapters from a folder that peft or save_adapters wrote; each rank reads what it keeps. Moments stay
/// as they are. The file's lora_dropout, a way to train, is passed over: the program's counts. All ranks call it, and
/// see the folder. Throws weft::file_error naming what is of another rank or scale, missing, of another shape, or read
/// by no adapter, and then leaves the adapters as they were.
template <class Model, class Store>
void load_adapters(context& ctx, Model& model, Store& store, const std::string& folder) {
  detail::require_adapters<Model>();
  const weight_names& names = weight_names_of(model.config());
  std::optional<safetensors> files;
  std::string read;
  const auto numbers_of = [&](const parameter_record& p) {
    const detail::adapter_name name = detail::adapter_name_of(names, p);
    return mapped_numbers(*files, p.name, p.global, {detail::adapter_tensor(name, p.global)});
  };
  detail::on_all_or_none(ctx, [&] {  // nothing is set before everything is known to be there
    const detail::model_files at = detail::files_of_adapters(folder);
    detail::check_adapter_config<typename Model::strategy::projections>(at);
    const nlohmann::json said = detail::read_config(at);
    files.emplace(at.one);
    store.load_parameters([&](const parameter_record& p) -> std::optional<mapped_numbers> {
      if (!p.adapter) return {};
      const detail::adapter_name name = detail::adapter_name_of(names, p);
      detail::check_target_modules(at.config, said, name.module);
      numbers_of(p);
      read += name.tensor() + '\n';
      return {};
    });
  });
  const std::vector<std::string> of_ranks = detail::gather_text(ctx, read);
  detail::on_all_or_none(ctx, [&] {
    if (ctx.is_first()) detail::check_all_read(*files, {}, of_ranks);
  });
  detail::on_all_or_none(ctx, [&] {
    store.load_parameters([&](const parameter_record& p) -> std::optional<mapped_numbers> {
      if (!p.adapter) return {};
      return numbers_of(p);
    });
  });
}

/// As save_pretrained, with every adapter merged: weight + scale * B A, computed in double and rounded once. The store
/// stays as it is. Memory: the adapters are gathered through a file in the folder, which is removed.
template <class Model, class Store>
void save_merged(context& ctx, Model& model, Store& store, const std::string& folder, dtype type = dtype::f32,
                 const folder_settings& how = {}) {
  detail::require_adapters<Model>();
  const weight_names& names = weight_names_of(model.config());
  detail::check_filled_by(ctx, names, store);
  const std::string factors = folder + "/adapters.merging", begun = detail::unfinished(factors);
  const detail::folder_texts texts = detail::texts_of(ctx, model, type, folder, how.like);
  detail::on_all_or_none(ctx, [&] {
    store.each_stored([](const stored_parameter& p) { detail::require_unmerged(p.record, "save_merged()"); });
    if (ctx.is_first()) detail::make_folder(folder);
  });
  try {
    detail::write_tensors<typename Store::backend>(ctx, factors,
                                                   detail::outgoing_adapters(ctx, store, names, dtype::f64));
    std::vector<detail::outgoing> all;
    detail::on_all_or_none(ctx, [&] {
      const auto files = std::make_shared<const safetensors>(factors);
      store.each_stored([&](const stored_parameter& p) {
        if (!detail::writes(ctx, p) || p.record.adapter) return;
        detail::outgoing o = detail::outgoing_weights(p, type, detail::parts_of(names, p.record));
        std::string tensor;
        detail::named(names, p.record.name, tensor);
        const std::string module = tensor.substr(0, tensor.rfind('.'));
        if (tensor.ends_with(".weight") && files->find(detail::factor_name(module, true)))  // and not its bias
          o.change = [files, merge = detail::merging(*files, module, Model::strategy::projections::scale),
                      record = &p.record, begin = p.begin,
                      count = p.count](double* numbers) { merge(*record, begin, count, numbers); };
        all.push_back(std::move(o));
      });
    });
    detail::write_folder<typename Store::backend>(ctx, folder, texts, all, how.most_bytes);
  } catch (...) {  // on all ranks
    if (ctx.is_first())
      for (const std::string* path : {&factors, &begun}) std::remove(path->c_str());
    throw;
  }
  detail::on_all_or_none(ctx, [&] {
    if (ctx.is_first() && std::remove(factors.c_str()) != 0) detail::fail_of_file(factors, "removed", errno);
  });
}

}  // namespace weft
