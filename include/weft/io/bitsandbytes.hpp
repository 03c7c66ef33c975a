// Weights in files of bitsandbytes: int8 with a scale for each row, and NF4. Invariant: a number that is read is the
// one that bitsandbytes makes of the same bytes. Source: https://github.com/bitsandbytes-foundation/bitsandbytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <weft/backend/quantise.hpp>
#include <weft/io/json_fields.hpp>
#include <weft/io/safetensors.hpp>

namespace weft::detail {

/// A tensor of few bits in files. Elements are numbered row-major, as those of the tensor that it stands for.
struct bitsandbytes_tensor {
  weight_format format;
  std::vector<std::int64_t> shape;  // of what it stands for
  quantised_slice codes;            // of the whole; nf4: with levels where its scales are of 8 bits in the usual blocks
  std::vector<float> scales;        // what codes.scales points to
  std::vector<float> block_scales;  // nf4: of each block of `block` elements
  std::int64_t block = 0;
  std::string levels_tensor;  // "": it has none of the usual kind, so codes can't be taken as they are

  float number(std::int64_t i) const {
    if (format == weight_format::int8) return decoded(codes, i, i);
    const int code = i % 2 == 0 ? codes.codes[i / 2] >> 4 : codes.codes[i / 2] & 15;
    return nf4_values.at[code] * block_scales[static_cast<std::size_t>(i / block)];
  }
};

inline constexpr std::string_view nf4_state = ".quant_state.bitsandbytes__nf4",
                                  fp4_state = ".quant_state.bitsandbytes__fp4";

/// quantization_config of a config.json: each tensor says what it is. Throws where it is another's than bitsandbytes'.
inline void read_quantization(json_fields& f, const std::string& path) {
  const nlohmann::json* const few = f.find("quantization_config");
  if (!few) return;
  json_fields q(*few, path, "quantization_config");
  if (q.string("quant_method", "") != "bitsandbytes")
    q.fail("quant_method", *few, "\"bitsandbytes\": other weights in few bits aren't read");
}

/// The tensor of scales beside an int8 weight.
inline std::string scales_beside(std::string_view tensor) {
  const std::size_t dot = tensor.rfind('.');
  return std::string(tensor.substr(0, dot == tensor.npos ? 0 : dot + 1)) + "SCB";
}

/// Whether a tensor belongs to one of few bits, which it stands beside; of is "its" name then.
inline bool stands_beside(const safetensors& files, std::string_view tensor, std::string& of) {
  for (const std::string_view end :
       {std::string_view(".absmax"), std::string_view(".quant_map"), std::string_view(".nested_absmax"),
        std::string_view(".nested_quant_map"), nf4_state})
    if (tensor.ends_with(end)) return files.find(of = tensor.substr(0, tensor.size() - end.size())) != nullptr;
  for (const std::string_view end : {std::string_view("SCB"), std::string_view("weight_format")})
    if (tensor.ends_with(end))
      return files.find(of = std::string(tensor.substr(0, tensor.size() - end.size())) + "weight") != nullptr;
  return false;
}

template <class... Parts>
[[noreturn, gnu::cold]] void fail_of_few_bits(const mapped_tensor& t, const Parts&... parts) {
  throw file_error(text("tensor ", in_quotes(t.entry->name), " in the file ", *t.path,
                        " is not one of bitsandbytes' as it is read here: ", parts...));
}
/// The floats of a tensor that has to be there and to have so many.
inline std::vector<float> floats_beside(const safetensors& files, const mapped_tensor& of, const std::string& name,
                                        std::int64_t count) {
  const mapped_tensor* const t = files.find(name);
  if (!t) fail_of_few_bits(of, "there is no tensor ", in_quotes(name), " beside it");
  const std::uint64_t bytes = t->entry->end - t->entry->begin;
  if (t->entry->type->type != dtype::f32 || bytes % sizeof(float) != 0 ||
      bytes / sizeof(float) != static_cast<std::uint64_t>(count))
    fail_of_few_bits(of, "tensor ", in_quotes(name), " beside it has not ", count, " numbers of F32");
  std::vector<float> out(static_cast<std::size_t>(count));
  std::memcpy(out.data(), t->data, bytes);
  for (const float x : out)
    if (!is_finite(x)) fail_of_few_bits(of, "tensor ", in_quotes(name), " beside it has a number that is not finite");
  return out;
}

inline void read_nf4(const safetensors& files, const mapped_tensor& t, const mapped_tensor& state,
                     bitsandbytes_tensor& out) {
  const std::string& name = t.entry->name;
  const std::string_view said(state.data, state.entry->end - state.entry->begin);
  const std::string within = name + std::string(nf4_state);
  const nlohmann::json all = parse_json(said, *state.path + ": " + within);
  json_fields f(all, *state.path, within);
  f.only("quant_type", "nf4");
  f.ignore({"dtype", "nested_dtype"});  // numbers are rounded to what the program computes in
  out.format = weight_format::nf4;
  std::int64_t elements = 1;
  const nlohmann::json* const sizes = f.find("shape");
  if (!sizes || !sizes->is_array()) fail_of_few_bits(t, "its state has no shape");
  for (const nlohmann::json& n : *sizes) {
    constexpr std::int64_t most = std::int64_t{1} << 40;
    if (!n.is_number_unsigned() || n.get<std::uint64_t>() < 1 ||
        n.get<std::uint64_t>() > static_cast<std::uint64_t>(most / elements))
      fail_of_few_bits(t, "its state's shape is ", sizes->dump());
    out.shape.push_back(n.get<std::int64_t>()), elements *= out.shape.back();
  }
  out.block = f.whole_number("blocksize");
  if (out.block < 1 || out.block > 1 << 20) f.fail("blocksize", out.block, "a number from 1 to 2^20");
  const std::int64_t blocks = (elements + out.block - 1) / out.block;
  if (t.entry->end - t.entry->begin != static_cast<std::uint64_t>((elements + 1) / 2))
    fail_of_few_bits(t, "it has ", t.entry->end - t.entry->begin, " bytes, for ", elements, " elements of 4 bits");
  const std::vector<float> values = floats_beside(files, t, name + ".quant_map", 16);
  if (!std::equal(values.begin(), values.end(), nf4_values.at))
    fail_of_few_bits(t, "its codes don't stand for NF4's numbers");
  out.codes.codes = reinterpret_cast<const std::uint8_t*>(t.data);
  if (!f.has("nested_blocksize")) {
    f.finish();
    out.block_scales = floats_beside(files, t, name + ".absmax", blocks);
    return;
  }
  const std::int64_t group = f.whole_number("nested_blocksize");
  if (group < 1 || group > 1 << 20) f.fail("nested_blocksize", group, "a number from 1 to 2^20");
  const auto offset = static_cast<float>(f.number("nested_offset"));
  if (!is_finite(offset)) f.fail("nested_offset", f.number("nested_offset"), "a number of fp32");
  f.finish();
  const mapped_tensor* const levels = files.find(name + ".absmax");
  if (!levels || levels->entry->type->type != dtype::u8 ||
      levels->entry->end - levels->entry->begin != static_cast<std::uint64_t>(blocks))
    fail_of_few_bits(t, "there is no tensor ", in_quotes(name + ".absmax"), " of ", blocks, " bytes beside it");
  out.scales = floats_beside(files, t, name + ".nested_quant_map", 256);
  out.scales.push_back(offset);
  const std::vector<float> factors = floats_beside(files, t, name + ".nested_absmax", (blocks + group - 1) / group);
  out.scales.insert(out.scales.end(), factors.begin(), factors.end());
  for (std::int64_t b = 0; b < blocks; ++b) {
    volatile float product =
        out.scales[static_cast<std::uint8_t>(levels->data[b])] * factors[static_cast<std::size_t>(b / group)];
    out.block_scales.push_back(product + offset);
  }
  if (out.block == quantised_slice::block && group * out.block == quantised_slice::group)
    out.levels_tensor = levels->entry->name;
}

/// What a tensor of few bits is; null: it isn't one. Throws weft::file_error naming what is amiss with it.
inline std::shared_ptr<const bitsandbytes_tensor> bitsandbytes_tensor_of(const safetensors& files,
                                                                         const mapped_tensor& t) {
  auto out = std::make_shared<bitsandbytes_tensor>();
  if (t.entry->type->name == "I8") {
    const std::string beside = scales_beside(t.entry->name);
    if (!files.find(beside) || t.entry->shape.size() != 2) return nullptr;
    out->format = weight_format::int8;
    for (const std::uint64_t n : t.entry->shape) out->shape.push_back(static_cast<std::int64_t>(n));
    if (t.entry->end == t.entry->begin) fail_of_few_bits(t, "it has no elements");
    const mapped_tensor* const layout = files.find(beside.substr(0, beside.size() - 3) + "weight_format");
    if (layout && (layout->entry->type->type != dtype::u8 || layout->entry->end - layout->entry->begin != 1 ||
                   *layout->data != 0))
      fail_of_few_bits(
          t,
          "its weight_format isn't 0, rows: it is in an order of a GPU's own; save it again with a newer bitsandbytes");
    out->codes = {weight_format::int8, {}, out->shape[1], 0, 0, reinterpret_cast<const std::uint8_t*>(t.data)};
    out->scales = floats_beside(files, t, beside, out->shape[0]);
    out->codes.scales = out->scales.data();
    return out;
  }
  if (t.entry->type->type != dtype::u8) return nullptr;
  if (files.find(t.entry->name + std::string(fp4_state)))
    fail_of_few_bits(t, "it is FP4, and 4 bits are read as NF4; quantise it again with bnb_4bit_quant_type=\"nf4\"");
  const mapped_tensor* const state = files.find(t.entry->name + std::string(nf4_state));
  if (!state) return nullptr;
  read_nf4(files, t, *state, *out);
  return out;
}

}  // namespace weft::detail
