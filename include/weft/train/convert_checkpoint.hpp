// Checkpoints to Hugging Face's folders and from them, without a trainer: on one rank, whatever strategy wrote them.
// Invariant: of the numbers no more is in memory than a part of one parameter, and adapters' factors.
#pragma once

#include <weft/io/merged_numbers.hpp>
#include <weft/io/pretrained.hpp>
#include <weft/parallel/launch.hpp>
#include <weft/train/checkpoint.hpp>

namespace weft {
namespace detail {

/// f(ctx, model) with the model that a config.json describes, which has no memory for weights.
template <class F>
void with_model_of(const nlohmann::json& config, const std::string& path, F&& f) {
  using S = strategy<mesh<>, fp32>;
  launch<S>({}, [&](context& ctx) {
    if (unpruned_family(json_fields(config, path).string("model_type", "")) == "gpt2") {
      gpt2<S> model(ctx, parse_gpt2_config(config, path));
      f(ctx, model);
    } else {
      llama<S> model(ctx, parse_llama_config(config, path));
      f(ctx, model);
    }
  });
}

/// A parameter's elements begin ... begin + count - 1, written to `to`.
using number_source = std::function<void(std::int64_t begin, std::int64_t count, double* to)>;

/// Adds to `all` what is written of a parameter, in parts that are made one after the other.
inline void add_made(std::vector<outgoing>& all, const parameter_record& p, dtype type, const tensor_part& to,
                     const number_source& from) {
  constexpr std::int64_t most = 1 << 22;
  for (std::int64_t begin = 0, n = p.global.elements(); begin < n; begin += most) {
    outgoing& o = all.emplace_back(outgoing{{}, p.at, begin, type, {to}});
    o.made = std::min(most, n - begin);
    o.make = [from, begin, count = o.made](double* numbers) { from(begin, count, numbers); };
  }
}

/// All numbers of a checkpoint's tensor.
inline std::vector<double> whole_of_tensor(const safetensors& files, const std::string& parameter) {
  const mapped_tensor* const t = files.find("weights/" + parameter);
  if (!t)
    throw file_error(text("the checkpoint has an adapter without parameter ", parameter,
                          "; take it from where it was whole, or go on from another one"));
  shape flat;
  flat.push_back(static_cast<std::int64_t>((t->entry->end - t->entry->begin) * 8 /
                                           static_cast<std::uint64_t>(t->entry->type->bits)));
  tensor_part part = flat_tensor(t->entry->name, flat);
  part.tensor_shape.assign(t->entry->shape.begin(), t->entry->shape.end());
  std::vector<double> out(static_cast<std::size_t>(flat[0]));
  mapped_numbers(files, parameter, flat, {part})
      .template read<double>(placed_slice{1, {flat[0]}, {flat[0]}, {0}, {flat[0]}}, 0, flat[0], out.data());
  return out;
}

/// What codes of a checkpoint stand for.
inline number_source decoded_source(const safetensors& files, const parameter_record& p) {
  const bool few = files.find("levels/" + p.name) != nullptr;
  quantised_slice q;
  q.format = few ? weight_format::nf4 : weight_format::int8;
  const std::int64_t n = p.global.elements();
  const auto bytes = [&](const std::string& name, std::int64_t count) {
    const mapped_tensor* const t = files.find(name);
    if (!t || t->entry->end - t->entry->begin != static_cast<std::uint64_t>(count))
      throw file_error(text("the checkpoint has parameter ", p.name, " in few bits, and not ", count,
                            " bytes as tensor ", name, ": it is of another model than its manifest.json says"));
    return t->data;
  };
  q.at = p.at, q.count = n;
  q.codes = reinterpret_cast<const std::uint8_t*>(bytes("codes/" + p.name, code_bytes(q.format, n)));
  if (few) q.levels = reinterpret_cast<const std::uint8_t*>(bytes("levels/" + p.name, level_bytes(q.format, n)));
  const std::string name = quantised_scales + p.name;
  const mapped_tensor* const scaled = files.find(name);
  auto count = static_cast<std::int64_t>(scaled ? (scaled->entry->end - scaled->entry->begin) / sizeof(float) : 0);
  if (few) count = scales_of(q.format, n, 0);
  q.row = count > 0 && n % count == 0 ? n / count : 1;
  auto scales = std::make_shared<std::vector<float>>(static_cast<std::size_t>(few ? count : n / q.row));
  std::memcpy(scales->data(), bytes(name, std::ssize(*scales) * std::int64_t{sizeof(float)}),
              scales->size() * sizeof(float));
  return [q, scales](std::int64_t begin, std::int64_t length, double* to) mutable {
    q.scales = scales->data();
    for (std::int64_t i = 0; i < length; ++i) to[i] = decoded(q, begin + i, begin + i);
  };
}

/// A parameter's numbers in a checkpoint, with its adapter merged where it has one. scale: of these.
inline number_source source_in(const std::shared_ptr<const safetensors>& files, const parameter_record& p,
                               double scale) {
  number_source base;
  if (files->find("codes/" + p.name)) {
    base = decoded_source(*files, p);
  } else {
    const tensor_part part = own_tensor("weights/" + p.name, p.global);
    base = [from = mapped_numbers(*files, p.name, p.global, {part}), at = p.at](
               std::int64_t begin, std::int64_t count, double* to) { from.read<double>(at, begin, count, to); };
  }
  base = [files, base](std::int64_t begin, std::int64_t count, double* to) { base(begin, count, to); };
  const mapped_tensor* const first = files->find("weights/" + p.name + ".lora_a");
  if (!first) return base;
  if (scale == 0)
    throw file_error(text("the checkpoint has adapters beside weights, ", p.name,
                          ".lora_a for one, and its manifest.json doesn't say their scale: load it into a trainer "
                          "under its lora<rank, alpha>, and write save_merged or save_adapters"));
  const auto a = std::make_shared<const std::vector<double>>(whole_of_tensor(*files, p.name + ".lora_a"));
  const auto b = std::make_shared<const std::vector<double>>(whole_of_tensor(*files, p.name + ".lora_b"));
  const auto rank = first->entry->shape.empty() ? 0 : static_cast<std::int64_t>(first->entry->shape[0]);
  const std::int64_t inputs = rank > 0 ? std::ssize(*a) / rank : 0, outputs = rank > 0 ? std::ssize(*b) / rank : 0;
  if (inputs * outputs != p.global.elements() || outputs * rank != std::ssize(*b))
    throw file_error(text("the checkpoint's adapter beside parameter ", p.name, " has ", a->size(), " and ", b->size(),
                          " numbers of rank ", rank, ", which don't fit the parameter's ", p.global.elements(),
                          ": it is of another model than its manifest.json says"));
  return [base, a, b, rank, scale, whole = p.global.elements(), at = p.at](std::int64_t begin, std::int64_t count,
                                                                           double* to) {
    std::vector<double> own(static_cast<std::size_t>(count));
    base(begin, count, own.data());
    merged_numbers<double> merged{whole, begin, own, *a, *b, rank, scale};
    merged.read<double>(at, begin, count, to);
  };
}

/// Throws where a checkpoint has weights that are none of these parameters, nor adapters of them.
inline void check_all_known(const safetensors& files, const std::set<std::string>& parameters,
                            const std::string& folder) {
  for (const auto& entry : files.tensors()) {
    std::string_view name = entry.first;
    if (!name.starts_with("weights/") && !name.starts_with("codes/")) continue;
    name.remove_prefix(name.find('/') + 1);
    const std::string own(name);
    if (name.ends_with(".lora_a") || name.ends_with(".lora_b")) name.remove_suffix(7);
    if (!parameters.contains(own) && !parameters.contains(std::string(name)))
      throw file_error(text("the checkpoint ", folder, " has weights of parameter ", in_quotes(own),
                            ", which the model that it is said to be of doesn't have: it is of another model"));
  }
}

}  // namespace detail

/// Writes the weights of a checkpoint to a folder of Hugging Face's, as numbers of `type`: what save_pretrained writes
/// from a trainer that has loaded it, or where it has adapters save_merged; what is stored in few bits as the numbers
/// that it stands for. The checkpoint may be of any strategy and any number of ranks. Its model's configuration is in
/// its manifest.json; where that has none (of before, or of a model of no family) it is `how.like`'s. Called once, not
/// by every rank. Throws weft::file_error naming what is missing or doesn't fit, and weft::failure when something can't
/// be written; what was in the folder is replaced when the new weights are whole.
inline void checkpoint_to_pretrained(const std::string& checkpoint, const std::string& folder, dtype type = dtype::f32,
                                     const folder_settings& how = {}) {
  const std::string manifest_path = checkpoint + "/manifest.json";
  const detail::checkpoint_manifest manifest = detail::read_manifest(manifest_path);
  const auto files = std::make_shared<const safetensors>(detail::open_checkpoint_file(checkpoint, manifest.files));
  if (manifest.model.empty() && how.like.empty())
    throw file_error(detail::text("the file ", manifest_path, " doesn't say of which model the checkpoint is; give a ",
                                  "folder of that model, with its config.json, as \"like\""));
  const bool own = !manifest.model.empty();
  const nlohmann::json config = own ? parse_json(manifest.model, manifest_path) : read_config_json(how.like);
  detail::with_model_of(config, own ? manifest_path : how.like + "/config.json", [&](context& ctx, auto& model) {
    const weight_names& names = weight_names_of(model.config());
    std::vector<detail::outgoing> all;
    std::set<std::string> known;
    for (const parameter_unit& u : model.registry().units())
      for (const parameter_record& p : u.parameters) {
        known.insert(p.name);
        detail::add_made(all, p, type, detail::part_in(names, p, p.global, false),
                         detail::source_in(files, p, manifest.adapters));
      }
    detail::check_all_known(*files, known, checkpoint);
    const detail::folder_texts texts = detail::texts_of(ctx, model, type, folder, how.like);
    detail::write_folder<cpu_backend>(ctx, folder, texts, all, how.most_bytes);
  });
}

/// Makes a checkpoint of weights alone from a folder of Hugging Face's: a run begins with it by load_checkpoint, under
/// any strategy, optimizer and seed, as it goes on from others. Numbers keep the folder's type; those in few bits
/// become fp32. The checkpoint's folder is made; one of this name must not be there. Called once, not by every rank.
/// Throws weft::file_error naming what is missing or doesn't fit, and weft::failure when something can't be written.
inline void pretrained_to_checkpoint(const std::string& folder, const std::string& checkpoint) {
  const nlohmann::json config = read_config_json(folder);
  const safetensors files(folder);
  detail::with_model_of(config, folder + "/config.json", [&](context& ctx, auto& model) {
    const weight_names& names = weight_names_of(model.config());
    std::vector<detail::outgoing> all;
    std::string read;
    for (const parameter_unit& u : model.registry().units())
      for (const parameter_record& p : u.parameters) {
        const tensor_part part = detail::part_in(files, names, p, p.global);
        const mapped_numbers from(files, p.name, p.global, {part});
        const auto type = files.find(part.tensor)->entry->type->type;
        const bool numbers = type && *type <= dtype::f16;
        detail::add_made(all, p, numbers ? *type : dtype::f32, detail::own_tensor("weights/" + p.name, p.global),
                         [from, at = p.at](std::int64_t begin, std::int64_t count, double* to) {
                           from.read<double>(at, begin, count, to);
                         });
        read += part.tensor + '\n';
      }
    detail::check_all_read(files, names, {read});
    detail::checkpoint_manifest manifest;
    manifest.weights_alone = true;
    manifest.model = write_config(model.config(), dtype::f32);
    manifest.saved = "the beginning, with the weights of " + folder;
    detail::begin_files<cpu_backend>(ctx, std::move(manifest), checkpoint, all).finish();
  });
}

}  // namespace weft
