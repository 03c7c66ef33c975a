// What a pruned model's parameters are in the files of the whole model: of tensors with heads, the groups that stay.
// Invariant: a tensor's other dimensions are as the parameter's, so what has another reason than heads isn't taken for
// it.
#pragma once

#include <vector>

#include <weft/io/quantised_parts.hpp>
#include <weft/nn/head_blocks.hpp>

namespace weft::detail {

/// The parameter's extents with so many heads.
inline shape with_heads(const parameter_record& p, std::int64_t n) {
  shape out = p.global;
  out[head_blocks(p, 1).dimension] = n;
  return out;
}

/// How many heads files have of a parameter that has fewer, and is alike otherwise; 0: it isn't so.
/// part_for(extents): the tensor of one that has these.
template <class PartFor>
std::int64_t more_heads_in(const safetensors& files, const parameter_record& p, PartFor&& part_for) {
  const std::int64_t heads = heads_in(p);
  const tensor_part own = part_for(p.global);
  const mapped_tensor* const found = files.find(own.tensor);
  if (heads == 0 || !found) return 0;
  const auto few = bitsandbytes_tensor_of(files, *found);
  const std::vector<std::int64_t> sizes =
      few ? few->shape : std::vector<std::int64_t>(found->entry->shape.begin(), found->entry->shape.end());
  const auto elements = [](const std::vector<std::int64_t>& of) {
    std::int64_t n = 1;
    for (const std::int64_t size : of) n *= size;
    return n;
  };
  const std::int64_t of_head = elements(own.tensor_shape) / heads, all = elements(sizes) / of_head;
  return all > heads && part_for(with_heads(p, all)).tensor_shape == sizes ? all : 0;
}

/// Throws weft::file_error where that is so. way_out: what to do then.
template <class PartFor>
void refuse_more_heads(const safetensors& files, const parameter_record& p, const char* way_out, PartFor&& part_for) {
  if (const std::int64_t all = more_heads_in(files, p, part_for))
    throw file_error(text("tensor ", part_for(p.global).tensor, " in the file ",
                          *files.find(part_for(p.global).tensor)->path, " has ", all, " heads, and parameter ", p.name,
                          " has ", heads_in(p), ": where heads of the files' model were pruned, ", way_out,
                          " (docs/pruning.md)"));
}

/// The parts that a layer keeps of a whole parameter's, of which there is one: a box for each run of groups.
inline std::vector<tensor_part> kept_parts(const tensor_part& whole, const parameter_record& p,
                                           const std::vector<std::int64_t>& kept) {
  const int d = head_blocks(p, 1).dimension;
  const auto groups = std::ssize(kept);
  const std::int64_t each = p.global[d] / groups;  // heads of a group
  std::vector<tensor_part> out;
  for (std::int64_t begin = 0, end; begin < groups; begin = end) {
    const std::int64_t first = kept[static_cast<std::size_t>(begin)];
    for (end = begin + 1; end < groups && kept[static_cast<std::size_t>(end)] == first + end - begin;) ++end;
    tensor_part& box = out.emplace_back(whole);
    box.first[d] = begin * each, box.extent[d] = (end - begin) * each;
    box.offset += first * each * whole.stride[d];
  }
  return out;
}

}  // namespace weft::detail
