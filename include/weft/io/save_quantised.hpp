// A model's weights of few bits to a folder, as bitsandbytes has them. Invariant: a folder that is written holds the
// store's own codes and scales, in the bytes that bitsandbytes makes of the same ones. Source:
// https://github.com/bitsandbytes-foundation/bitsandbytes.
#pragma once

#include <charconv>

#include <weft/io/pretrained.hpp>

namespace weft {
namespace detail {

/// A number as Python writes it in JSON: the fewest digits that are read as the same one.
inline std::string python_number(double x) {
  char digits[64];
  const double size = std::abs(x);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(digits, digits + sizeof digits, x,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific);
  const std::string out(digits, end.ptr);
  return fixed && out.find('.') == out.npos ? out + ".0" : out;
}

/// What bitsandbytes says beside a weight of NF4 in words.
inline std::string nf4_state_text(const std::vector<std::int64_t>& shape, dtype type, float offset) {
  std::string sizes;
  for (const std::int64_t n : shape) sizes += text(sizes.empty() ? "" : ", ", n);
  return text("{\"quant_type\": \"nf4\", \"blocksize\": ", quantised_slice::block, ", \"dtype\": \"", torch_name(type),
              "\", \"shape\": [", sizes, "], \"nested_blocksize\": ", quantised_slice::group / quantised_slice::block,
              ", \"nested_dtype\": \"float32\", \"nested_offset\": ", python_number(static_cast<double>(offset)), "}");
}

/// The slice of a vector that one rank writes whole.
inline placed_slice vector_slice(std::int64_t n) { return {1, {n}, {n}, {0}, {n}}; }
inline tensor_part vector_tensor(std::string name, std::int64_t n) {
  return whole_tensor(std::move(name), shape{1, {n}}, {n});
}

/// Throws where files have no place for a parameter's codes.
inline void require_tensor_of_codes(const parameter_record& p, const tensor_part& part) {
  const auto is = [&] { return text("parameter ", p.name, " is stored as ", name_of(p.stored.format), ", and "); };
  const char* const instead = "; save numbers, by save_pretrained";
  require(part.tensor_shape.size() == 2 && part.tensor_shape[1] == p.stored.row && part.tensor.ends_with(".weight"),
          is(), "the tensor ", in_quotes(part.tensor), " has no row of ", p.stored.row,
          " for each output, or isn't called ....weight, as bitsandbytes has it", instead);
  require(p.stored.format != weight_format::nf4 || p.global.elements() == part.tensor_shape[0] * part.tensor_shape[1],
          is(), "is a part of the tensor ", in_quotes(part.tensor),
          ", all of which has one offset of its scales in files of bitsandbytes", instead, ", or store it as int8");
}

/// What this rank writes of a parameter in few bits.
template <class Backend>
void add_outgoing_codes(context& ctx, const stored_parameter& p, const tensor_part& part, dtype type,
                        std::vector<outgoing>& all) {
  const std::string& name = part.tensor;
  const bool few = p.record.stored.format == weight_format::nf4, first = is_at_the_beginning(p);
  const auto whole = [&](std::string to, const local_array& numbers) {
    const std::int64_t n = numbers.elements();
    all.push_back({numbers, vector_slice(n), 0, numbers.type, {vector_tensor(std::move(to), n)}});
  };
  const auto of_host = [&](tensor_part to, dtype as, std::vector<float> numbers) {
    const auto n = static_cast<std::int64_t>(numbers.size());
    all.push_back({{}, vector_slice(n), 0, as, {std::move(to)}});
    all.back().of_host = std::move(numbers);
  };
  if (!few) {  // rows of the tensor
    all.push_back({p.codes, p.record.at, p.begin, p.codes.type, {part}});
    all.back().signed_bytes = true;
    if (!first) return;
    const std::int64_t rows = p.scales.elements();
    tensor_part scales = vector_tensor(scales_beside(name), rows);
    scales.tensor_shape[0] = part.tensor_shape[0], scales.offset = part.offset / p.record.stored.row;
    all.push_back({p.scales, vector_slice(rows), 0, p.scales.type, {std::move(scales)}});
    if (part.offset == 0) of_host(whole_tensor(name + "_format", shape{1, {1}}, {}), dtype::u8, {0});  // by rows
    return;
  }
  each_quantised_part(p, [&](const char* kind, const local_array& array, const placed_slice& at, std::int64_t begin) {
    const shape sizes = whole_of(at);
    const std::int64_t n = sizes.elements();
    if (kind != quantised_scales) {
      const bool levels = array.data == p.levels.data;
      auto to = levels ? whole_tensor(name + ".absmax", sizes, {n}) : whole_tensor(name, sizes, {n, 1});
      all.push_back({array, at, begin, array.type, {std::move(to)}});
    } else if (first) {
      constexpr std::int64_t offset = quantised_slice::offset, factors = quantised_slice::factors;
      const float mean = on_the_host<Backend>(ctx, array.as<const float>() + offset, 1).front();
      const std::string state = nf4_state_text(part.tensor_shape, type, mean);
      whole(name + ".nested_quant_map", array.part(0, offset));
      whole(name + ".nested_absmax", array.part(factors, n - factors));
      of_host(vector_tensor(name + ".quant_map", 16), dtype::f32, {nf4_values.at, nf4_values.at + 16});
      of_host(vector_tensor(name + std::string(nf4_state), static_cast<std::int64_t>(state.size())), dtype::u8,
              {state.begin(), state.end()});
    }
  });
}

/// What this rank writes of a store's weights but adapters, each as it is stored. All ranks call it.
template <class Store>
std::vector<outgoing> outgoing_codes(context& ctx, Store& store, const weight_names& names, dtype type) {
  require(type <= dtype::f16 && type != dtype::f64, "beside weights of bitsandbytes others are f32, bf16 or f16, not ",
          name_of(type));
  check_filled_by(ctx, names, store);
  std::vector<outgoing> all;
  on_all_or_none(ctx, [&] {
    store.each_stored([&](const stored_parameter& p) {
      if (p.record.adapter) return;
      auto parts = parts_of(names, p.record, p.is_quantised());
      if (p.is_quantised()) require_tensor_of_codes(p.record, parts.front());
      if (!writes(ctx, p)) return;
      outgoing numbers = outgoing_weights(p, type, std::move(parts));  // throws where there are none yet
      if (p.is_quantised())
        add_outgoing_codes<typename Store::backend>(ctx, p, numbers.parts.front(), type, all);
      else
        all.push_back(std::move(numbers));
    });
  });
  return all;
}

template <class Projections>
constexpr weight_format stored_format() {
  if constexpr (requires { Projections::stored_as; }) return Projections::stored_as;
  return weight_format::plain;
}

/// Makes config.json say so.
inline void add_quantization(std::string& config, weight_format format, dtype type) {
  const bool few = format == weight_format::nf4;
  auto j = nlohmann::ordered_json::parse(config);
  nlohmann::ordered_json& q = j["quantization_config"];
  q = {{"quant_method", "bitsandbytes"}, {"load_in_4bit", few}, {"load_in_8bit", !few}};
  if (few)
    q.update({{"bnb_4bit_quant_type", "nf4"},
              {"bnb_4bit_use_double_quant", true},
              {"bnb_4bit_quant_storage", "uint8"},
              {"bnb_4bit_compute_dtype", torch_name(type)}});
  config = j.dump(2) + '\n';
}

}  // namespace detail

/// As save_pretrained, of a model under nf4<...> or int8<...>, whose projections' codes and scales are written as they
/// are, as bitsandbytes has them: transformers reads the folder with bitsandbytes, and so do llama_from_pretrained and
/// load_weights, with equal numbers. What isn't in few bits is written as `type`, f32, bf16 or f16. Adapters aren't in
/// it (save_adapters).
template <class Model, class Store>
void save_quantised(context& ctx, const Model& model, Store& store, const std::string& folder, dtype type,
                    const folder_settings& how = {}) {
  using projections = typename Model::strategy::projections;
  constexpr weight_format format = detail::stored_format<projections>();
  static_assert(format != weight_format::plain,
                "weft: this model has no weights in few bits: its strategy needs nf4<> or int8<>; its numbers are "
                "written by save_pretrained");
  detail::folder_texts texts = detail::texts_of(ctx, model, type, folder, how.like);
  detail::on_all_or_none(ctx, [&] {
    if (ctx.is_first()) detail::add_quantization(texts.config(), format, type);
  });
  const auto all = detail::outgoing_codes(ctx, store, weight_names_of(model.config()), type);
  detail::write_folder<typename Store::backend>(ctx, folder, texts, all, how.most_bytes);
}

}  // namespace weft
