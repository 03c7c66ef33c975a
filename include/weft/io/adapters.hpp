// Adapters of a model under lora<...>: to and from folders of peft, and merged into the weights. Invariant: merging
// changes what is written and not the store, so there is nothing to undo.
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <regex>

#include <weft/io/json_fields.hpp>
#include <weft/io/pretrained.hpp>

namespace weft {

namespace detail {

/// What peft calls the factor A or B beside a module.
inline std::string factor_name(const std::string& module, bool first) {
  return "base_model.model." + module + (first ? ".lora_A.weight" : ".lora_B.weight");
}

/// The module that an adapter's factor stands beside, "model.layers.0.self_attn.q_proj", and which factor it is.
struct adapter_name {
  std::string weight, module;  // the parameter, and what files call it
  const weight_name* line;
  bool first;  // A, of the input

  std::string tensor() const { return factor_name(module, first); }
};

/// Throws where files of peft have no place for it.
inline adapter_name adapter_name_of(const weight_names& names, const parameter_record& p) {
  constexpr std::string_view ending = ".lora_a";
  adapter_name out;
  out.weight = p.name.substr(0, p.name.size() - ending.size());
  out.first = p.name.ends_with(ending);
  std::string tensor;
  out.line = named(names, out.weight, tensor);
  if (!out.line || !tensor.ends_with(".weight"))
    throw file_error(text("parameter ", p.name, " stands beside ", out.weight,
                          ", which has no tensor in such files: its family's names have no line for it"));
  if (out.line->of_parts > 1)
    throw file_error(
        text("parameter ", p.name, " stands beside a part of the tensor ", tensor,
             ", and files have one adapter for the whole of it, beside it or merged: leave such weights out "
             "by the projections policy's adapts_weight"));
  out.module = tensor.substr(0, tensor.size() - std::string_view(".weight").size());
  return out;
}

/// The tensor of a factor: [rank, inputs] or [outputs, rank].
inline tensor_part adapter_tensor(const adapter_name& name, const shape& global) {
  const std::int64_t rank = name.first ? global[0] : global[global.ndim - 1], others = global.elements() / rank;
  return whole_tensor(name.tensor(), global, name.first ? std::vector{rank, others} : std::vector{others, rank});
}

template <class Model>
constexpr void require_adapters() {
  static_assert(Model::strategy::projections::adapts,
                "weft: this model has no adapters: its strategy needs lora<rank, alpha>");
}

/// adapter_config.json of adapters beside these modules. by_columns: their weights lie so, as GPT-2's.
template <class Projections>
std::string adapter_config(const std::set<std::string_view>& modules, bool by_columns) {
  const double alpha = Projections::scale * Projections::rank;
  nlohmann::ordered_json j{
      {"peft_type", "LORA"},      {"task_type", "CAUSAL_LM"},     {"base_model_name_or_path", nullptr},
      {"r", Projections::rank},   {"lora_alpha", alpha},          {"lora_dropout", adapter_dropout<Projections>()},
      {"bias", "none"},           {"fan_in_fan_out", by_columns}, {"inference_mode", true},
      {"target_modules", modules}};
  if (alpha == std::round(alpha)) j["lora_alpha"] = static_cast<std::int64_t>(alpha);
  return j.dump(2) + '\n';
}

/// Throws unless a file describes adapters of this policy.
template <class Projections>
void check_adapter_config(const model_files& files) {
  const nlohmann::json said = read_config(files);
  json_fields f(said, files.config);
  f.only("peft_type", "LORA"), f.only("bias", "none");
  f.only("r", Projections::rank);
  const double alpha = f.number("lora_alpha"), rank = Projections::rank;
  const double scale = f.flag("use_rslora", false) ? alpha / std::sqrt(rank) : alpha / rank;
  if (std::abs(scale - Projections::scale) > 1e-12 * std::abs(scale))
    f.fail(
        "lora_alpha", alpha,
        text(Projections::scale * rank, ", as this program's lora<rank, alpha> has it, or the program has to be lora<",
             rank, ", ", scale * rank, ">"));
  if (const nlohmann::json* const born = f.find("init_lora_weights");
      born && !born->is_boolean() && *born != "gaussian" && *born != "eva" && *born != "orthogonal")
    f.fail("init_lora_weights", *born,
           "true, false, gaussian, eva or orthogonal: others change the model's weights as well, beside which adapters "
           "mean something else; save them in peft by save_pretrained(folder, "
           "path_initial_model_for_weight_conversion=...)");
  f.ignore({"task_type", "base_model_name_or_path", "lora_dropout", "inference_mode", "target_modules", "auto_mapping",
            "revision", "peft_version", "fan_in_fan_out", "layers_to_transform", "layers_pattern", "exclude_modules",
            "megatron_core", "ensure_weight_tying", "qalora_group_size", "runtime_config"});
  for (const auto& [name, value] : said.items())  // what peft has beside is off
    if (value.is_null() || value == false || ((value.is_object() || value.is_array()) && value.empty()))
      f.ignore({name.c_str()});
  f.finish();
}

inline model_files files_of_adapters(const std::string& folder) {
  return {folder + "/adapter_config.json", folder + "/adapter_model.safetensors", ""};
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

/// Throws where a file's target_modules, a list of endings or a pattern of whole names, leave out a module beside which
/// the program has an adapter. (Modules that it has none for are found by their tensors.)
inline void check_target_modules(const std::string& path, const nlohmann::json& said, const std::string& module) {
  const auto at = said.find("target_modules");
  if (at == said.end() || at->is_null() || *at == "all-linear") return;
  bool known = false;
  if (at->is_array()) {
    std::vector<std::string> targets;
    for (const nlohmann::json& one : *at)
      if (one.is_string()) targets.push_back(one.get<std::string>());
    known = is_targeted(targets, module);
  } else if (at->is_string()) {
    try {
      known = std::regex_match(module, std::regex(at->get<std::string>()));
    } catch (const std::regex_error&) {  // of a pattern that Python alone reads; the tensors tell
      return;
    }
  }
  if (!known)
    throw file_error(text(path, ": target_modules is ", at->dump(), ", and the program has an adapter beside ", module,
                          ", which isn't among them: let its projections policy's target_modules name the same"));
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
