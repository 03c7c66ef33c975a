// A parameter that is stored in few bits, as the arrays that it consists of. Invariant: a rank's part of each is a
// slice of a whole, as its slice of the parameter is, only that a step along it is a byte's elements, or a block's.
#pragma once

#include <weft/io/tensor_parts.hpp>
#include <weft/parallel/flat_bucket.hpp>

namespace weft::detail {

inline constexpr const char* quantised_scales = "scales/";

/// The slice in steps of `unit` neighbours: those of the last dimension that isn't whole, which they divide.
inline placed_slice in_steps(const placed_slice& at, std::int64_t unit) {
  placed_slice out = at;
  std::int64_t inner = 1;
  int d = at.ndim - 1;
  for (; d > 0 && at.is_whole(d); --d) inner *= at.global[d];
  const auto steps = [&](std::int64_t n) { return (n * inner + unit - 1) / unit; };
  out.ndim = d + 1;
  out.local[d] = steps(at.local[d]), out.global[d] = steps(at.global[d]);
  out.first[d] = steps(at.first[d]), out.valid[d] = steps(at.valid[d]);
  return out;
}
inline shape whole_of(const placed_slice& at) {
  shape out;
  for (int d = 0; d < at.ndim; ++d) out.push_back(at.global[d]);
  return out;
}
/// Whether what a rank keeps begins with the whole parameter's first element.
inline bool is_at_the_beginning(const stored_parameter& p) {
  return p.begin == 0 && p.count > 0 && p.record.at.global_index(0) == 0;
}

/// f(kind, array, slice, begin) for codes, levels and scales: elements begin ... of the slice.
template <class F>
void each_quantised_part(const stored_parameter& p, F&& f) {
  if (!p.is_quantised()) return;
  constexpr std::int64_t block = quantised_slice::block;
  const bool few = p.record.stored.format == weight_format::nf4;
  f("codes/", p.codes, in_steps(p.record.at, few ? 2 : 1), p.begin / (few ? 2 : 1));
  if (few) f("levels/", p.levels, in_steps(p.record.at, block), p.begin / block);
  const std::int64_t n = p.scales.elements();
  f(quantised_scales, p.scales, placed_slice{1, {n}, {n}, {0}, {n}}, 0);
}

/// The tensor whose codes a parameter can keep as they are; null: there is none.
inline std::shared_ptr<const bitsandbytes_tensor> codes_for(const safetensors& files, const tensor_part& part,
                                                            const parameter_record& p) {
  const mapped_tensor* const t = files.find(part.tensor);
  const tensor_part whole = whole_tensor(part.tensor, p.global, {});
  std::int64_t elements = 1;  // of the tensor, which several parameters may be parts of
  for (const std::int64_t n : part.tensor_shape) elements *= n;
  if (p.stored.format == weight_format::plain || !t || elements != p.global.elements() || part.offset != 0 ||
      !(part.extent == whole.extent) || !(part.stride == whole.stride))
    return nullptr;
  auto few = bitsandbytes_tensor_of(files, *t);
  if (!few || few->format != p.stored.format || few->shape != part.tensor_shape) return nullptr;
  const bool fits = few->format == weight_format::nf4 ? !few->levels_tensor.empty() : few->codes.row == p.stored.row;
  return fits ? few : nullptr;
}

/// Sets what this rank keeps of such a parameter.
template <class Backend>
void load_codes(context& ctx, const safetensors& files, const std::string& tensor, const bitsandbytes_tensor& few,
                const stored_parameter& p) {
  each_quantised_part(p, [&](const char* kind, const local_array& part, const placed_slice& at, std::int64_t begin) {
    if (kind == quantised_scales)
      return write_by_host<Backend, float>(ctx, part,
                                           [&](float* to) { std::copy(few.scales.begin(), few.scales.end(), to); });
    const std::string& name = part.data == p.codes.data ? tensor : few.levels_tensor;
    const auto& sizes = files.find(name)->entry->shape;
    const shape all = whole_of(at);
    const mapped_numbers from(files, p.record.name, all, {whole_tensor(name, all, {sizes.begin(), sizes.end()})}, true);
    write_by_host<Backend, std::uint8_t>(
        ctx, part, [&](std::uint8_t* to) { from.template read<std::uint8_t>(at, begin, part.elements(), to); });
  });
}

}  // namespace weft::detail
