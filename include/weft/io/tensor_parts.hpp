// A parameter's numbers as they lie in the tensors of files: whole, transposed, or several parameters in one tensor.
// Invariant: the parts of a parameter are boxes that fill it, each number in one of them.
#pragma once

#include <string>
#include <vector>

#include <weft/backend/concept.hpp>
#include <weft/io/bitsandbytes.hpp>

namespace weft {

/// A box of a parameter, and the tensor that has it. Dimensions are the parameter's, extents are global.
struct tensor_part {
  std::string tensor;                      // its name in the files
  std::vector<std::int64_t> tensor_shape;  // that it has there
  shape first, extent;                     // of the parameter: where the box begins, and its sizes
  std::int64_t offset = 0;                 // in elements of the tensor: where the box's first lies
  shape stride;                            // the same: from one to the next along each dimension
};

namespace detail {

/// Calls f(part, element of its tensor, stride, count, where in out) for each run of numbers along the last dimension
/// among elements begin ... begin + count - 1 of a rank's slice. Padding is in none.
template <class F>
void each_run(const std::vector<tensor_part>& parts, const placed_slice& at, std::int64_t begin, std::int64_t count,
              F&& f) {
  const int last = at.ndim - 1;
  for (std::int64_t done = 0; done < count;) {
    std::int64_t here[max_ndim] = {}, i = begin + done;
    for (int d = last; d >= 0; --d) here[d] = i % at.local[d], i /= at.local[d];
    const std::int64_t row = std::min(count - done, at.local[last] - here[last]);
    bool inside = true;
    for (int d = 0; d < last; ++d) inside = inside && here[d] < at.valid[d];
    const std::int64_t n = inside ? std::min(row, at.valid[last] - here[last]) : 0;
    for (int d = 0; d <= last; ++d) here[d] += at.first[d];
    for (std::size_t k = 0; n > 0 && k < parts.size(); ++k) {
      const tensor_part& p = parts[k];
      std::int64_t element = p.offset;
      bool outside = false;
      for (int d = 0; d < last; ++d) {
        outside = outside || here[d] < p.first[d] || here[d] >= p.first[d] + p.extent[d];
        element += (here[d] - p.first[d]) * p.stride[d];
      }
      const std::int64_t from = std::max(here[last], p.first[last]),
                         to = std::min(here[last] + n, p.first[last] + p.extent[last]);
      if (outside || from >= to) continue;
      f(k, element + (from - p.first[last]) * p.stride[last], p.stride[last], to - from, done + from - here[last]);
    }
    done += row;
  }
}

/// n numbers from `from` on, every stride-th, which may lie at any address.
template <class From, class Through, class T>
void read_numbers(const char* from, std::int64_t stride, std::int64_t n, T* to) {
  if constexpr (std::is_same_v<From, T> && (std::is_same_v<Through, T> || sizeof(Through) > sizeof(T)))
    if (stride == 1) return void(std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T)));
  for (std::int64_t i = 0; i < n; ++i) {
    From number;
    std::memcpy(&number, from + i * stride * static_cast<std::int64_t>(sizeof number), sizeof number);
    const auto rounded =
        static_cast<Through>(static_cast<accumulate_t<Through>>(static_cast<accumulate_t<From>>(number)));
    to[i] = static_cast<T>(static_cast<accumulate_t<T>>(rounded));
  }
}

/// The same of what few bits stand for.
template <class Through, class T>
void read_few_bits(const bitsandbytes_tensor& from, std::int64_t element, std::int64_t stride, std::int64_t n, T* to) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto rounded = static_cast<Through>(static_cast<accumulate_t<Through>>(from.number(element + i * stride)));
    to[i] = static_cast<T>(static_cast<accumulate_t<T>>(rounded));
  }
}

/// The same the other way: n numbers to every stride-th place from `to` on.
template <class To, class T>
void write_numbers(const T* from, std::int64_t stride, std::int64_t n, char* to) {
  if constexpr (std::is_same_v<To, T>)
    if (stride == 1) return void(std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T)));
  for (std::int64_t i = 0; i < n; ++i) {
    const auto number = static_cast<To>(static_cast<accumulate_t<To>>(static_cast<accumulate_t<T>>(from[i])));
    std::memcpy(to + i * stride * static_cast<std::int64_t>(sizeof number), &number, sizeof number);
  }
}

/// f(an element of this floating type).
template <class F>
void visit_floating(dtype type, F&& f) {
  if (type == dtype::f64) return f(double());
  if (type == dtype::f32) return f(float());
  if (type == dtype::bf16) return f(bf16());
  f(fp16());
}

/// The same, and bytes.
template <class F>
void visit_stored(dtype type, F&& f) {
  if (type == dtype::u8) return f(std::uint8_t());
  visit_floating(type, f);
}

/// A parameter's numbers, row-major, as the whole of a tensor of this shape.
inline tensor_part whole_tensor(std::string name, const shape& global, std::vector<std::int64_t> tensor_shape) {
  tensor_part p;
  p.tensor = std::move(name);
  p.tensor_shape = std::move(tensor_shape);
  p.first = p.extent = p.stride = global;
  std::int64_t stride = 1;
  for (int d = global.ndim - 1; d >= 0; --d) p.first[d] = 0, p.stride[d] = stride, stride *= global[d];
  return p;
}

}  // namespace detail

/// A parameter's numbers in mapped files, for parameter_store::load_parameters: a rank reads those that it keeps.
class mapped_numbers {
 public:
  /// global: the parameter's extents. Throws weft::file_error where a tensor isn't there, has another shape, or no
  /// numbers of 16 bits and more (`bytes`: no bytes).
  mapped_numbers(const safetensors& files, const std::string& parameter, const shape& global,
                 std::vector<tensor_part> parts, bool bytes = false)
      : global_(global), parts_(std::move(parts)) {
    std::int64_t filled = 0;
    for (const tensor_part& p : parts_) {
      sources_.push_back(source(files, parameter, p, bytes));
      filled += p.extent.elements();
    }
    require(filled == global.elements(), "the tensors that parameter ", parameter, " is read from fill ", filled,
            " of its ", global.elements(), " elements: its parts are boxes that fill it, each number in one of them");
  }

  std::int64_t size() const { return global_.elements(); }

  /// Writes elements begin ... begin + count - 1 of a rank's slice to out, each rounded to Through first. Padding is 0.
  template <class Through, class T>
  void read(const placed_slice& at, std::int64_t begin, std::int64_t count, T* out) const {
    if (at.has_padding()) std::fill(out, out + count, T{});
    detail::each_run(parts_, at, begin, count,
                     [&](std::size_t part, std::int64_t element, std::int64_t stride, std::int64_t n, std::int64_t to) {
                       const numbers& from = sources_[part];
                       if (from.few_bits)
                         return detail::read_few_bits<Through>(*from.few_bits, element, stride, n, out + to);
                       detail::visit_stored(from.type, [&]<class From>(From) {
                         const char* const first = from.data + element * static_cast<std::int64_t>(sizeof(From));
                         detail::read_numbers<From, Through>(first, stride, n, out + to);
                       });
                     });
  }

 private:
  struct numbers {
    const char* data;
    dtype type;
    std::shared_ptr<const detail::bitsandbytes_tensor> few_bits = nullptr;
  };

  static numbers source(const safetensors& files, const std::string& parameter, const tensor_part& p, bool bytes) {
    const mapped_tensor* const found = files.find(p.tensor);
    if (!found)
      throw file_error(
          detail::text("parameter ", parameter, " is read from tensor ", p.tensor, ", which the weights don't have"));
    const safetensors_entry& e = *found->entry;
    if (!bytes)
      if (auto few = detail::bitsandbytes_tensor_of(files, *found)) {
        if (few->shape != p.tensor_shape) fail_of_shape(parameter, p, *found, few->shape);
        return {found->data, dtype::u8, std::move(few)};
      }
    if (!std::equal(e.shape.begin(), e.shape.end(), p.tensor_shape.begin(), p.tensor_shape.end()))
      fail_of_shape(parameter, p, *found, e.shape);
    if (bytes && e.type->bits == 8) return {found->data, dtype::u8};
    if (bytes || !e.type->type || *e.type->type > dtype::f16)
      throw file_error(
          detail::text("tensor ", p.tensor, " in the file ", *found->path, " is of dtype ", e.type->name,
                       bytes ? "; it is read as U8" : "; parameters are read from F64, F32, F16 and BF16"));
    return {found->data, *e.type->type};
  }
  template <class Sizes>
  [[noreturn, gnu::cold]] static void fail_of_shape(const std::string& parameter, const tensor_part& p,
                                                    const mapped_tensor& found, const Sizes& sizes) {
    throw file_error(detail::text("tensor ", p.tensor, " in the file ", *found.path, " is ", written(sizes),
                                  ", and parameter ", parameter, " needs ", written(p.tensor_shape),
                                  ": these weights are of another configuration"));
  }
  template <class Sizes>
  static std::string written(const Sizes& sizes) {
    std::string out = "[";
    for (const auto n : sizes) (out += out.size() > 1 ? ", " : "") += std::to_string(n);
    return out + "]";
  }

  shape global_;
  std::vector<tensor_part> parts_;
  std::vector<numbers> sources_;
};

}  // namespace weft
