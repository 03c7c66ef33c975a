// A parameter as the tensors of a checkpoint. Invariant: their sizes follow from the parameter alone, on every mesh.
#pragma once

#include <weft/io/quantised_parts.hpp>

namespace weft::detail {

/// A parameter's numbers as a tensor of their own, of the parameter's extents.
inline tensor_part own_tensor(const std::string& name, const shape& global) {
  return whole_tensor(name, global, {global.extent, global.extent + global.ndim});
}

/// The same as a tensor of one dimension, whatever these are.
inline tensor_part flat_tensor(const std::string& name, const shape& global) {
  return whole_tensor(name, global, {global.elements()});
}

/// The numbers of a checkpoint's tensor for a part of a parameter that is stored in few bits.
inline mapped_numbers quantised_part(const safetensors& files, const char* kind, const parameter_record& p,
                                     const placed_slice& at, dtype type) {
  const shape all = whole_of(at);
  return mapped_numbers(files, p.name, all, {flat_tensor(kind + p.name, all)}, type == dtype::u8);
}

/// Throws unless a checkpoint has a parameter in the format in which it is stored here.
inline void require_format(const safetensors& files, const parameter_record& p, const std::string& folder) {
  const weight_format wrote = !files.find("codes/" + p.name)   ? weight_format::plain
                              : files.find("levels/" + p.name) ? weight_format::nf4
                                                               : weight_format::int8;
  if (wrote != p.stored.format && (wrote != weight_format::plain || files.find("weights/" + p.name)))
    throw file_error(
        text("the checkpoint ", folder, " has parameter ", p.name, " stored as ", name_of(wrote),
             ", and this strategy stores it as ", name_of(p.stored.format),
             ": go on under the format that it was written in, or begin anew from its weights and adapters "
             "(save_pretrained, save_adapters)"));
}

}  // namespace weft::detail
