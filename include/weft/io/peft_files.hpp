// Adapters as peft's folders have them: what its tensors are called, and what adapter_config.json says. Invariant: what
// a file says that would mean another model than the program's is refused, by the name of its field.
#pragma once

#include <cmath>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <weft/io/json_fields.hpp>
#include <weft/io/pretrained.hpp>

namespace weft::detail {

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

}  // namespace weft::detail
