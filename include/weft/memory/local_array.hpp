// An array: what a rank holds of a tensor, with run-time sizes and type. Operators and kernels see these; placements
// are the business of the types above. Invariant: contiguous, row-major.
#pragma once

#include <weft/core/dtype.hpp>
#include <weft/memory/arena.hpp>

namespace weft {

inline constexpr int max_ndim = 8;

/// Local sizes of an array, outermost first.
struct shape {
  int ndim = 0;
  std::int64_t extent[max_ndim] = {};

  std::int64_t& operator[](int i) { return extent[i]; }
  std::int64_t operator[](int i) const { return extent[i]; }
  void push_back(std::int64_t n) {
    require(ndim < max_ndim, "a tensor has at most 8 dimensions: join some of them into one");
    extent[ndim++] = n;
  }
  /// Product of the extents in [first, last): all of them by default.
  std::int64_t elements(int first = 0, int last = max_ndim) const {
    std::int64_t n = 1;
    for (int i = first; i < std::min(last, ndim); ++i) n *= extent[i];
    return n;
  }
  friend bool operator==(const shape& a, const shape& b) {
    return a.ndim == b.ndim && std::equal(a.extent, a.extent + a.ndim, b.extent);
  }
};

/// Sizes, element type and memory, which it shares or only looks at. Extents are local. What was moved from has no
/// memory.
struct local_array {
  storage buffer;
  void* data = nullptr;
  dtype type = dtype::f32;
  weft::shape shape;

  local_array() = default;
  local_array(const local_array&) = default;
  local_array& operator=(const local_array&) = default;
  local_array(local_array&& other) noexcept
      : buffer(std::move(other.buffer)),
        data(std::exchange(other.data, nullptr)),
        type(other.type),
        shape(other.shape) {}
  local_array& operator=(local_array&& other) noexcept {
    buffer = std::move(other.buffer);
    data = std::exchange(other.data, nullptr);
    type = other.type;
    shape = other.shape;
    return *this;
  }
  local_array(arena& from, dtype element, const weft::shape& sizes, memory category)
      : buffer(from.allocate(static_cast<std::size_t>(sizes.elements()) * size_of(element), category)),
        data(buffer.data()),
        type(element),
        shape(sizes) {}
  /// A view of memory that somebody else keeps alive.
  local_array(void* memory, dtype element, const weft::shape& sizes) : data(memory), type(element), shape(sizes) {}

  explicit operator bool() const { return data != nullptr; }
  std::int64_t elements() const { return shape.elements(); }
  std::int64_t bytes() const { return elements() * static_cast<std::int64_t>(size_of(type)); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  /// `count` elements from element `first` on, as a vector.
  WEFT_LINKED local_array part(std::int64_t first, std::int64_t count) const {
    if (!data) return {};
    local_array out = reshaped({1, {count}});
    out.data = static_cast<std::byte*>(data) + first * static_cast<std::int64_t>(size_of(type));
    return out;
  }
  /// The same memory seen with other sizes.
  local_array reshaped(const weft::shape& sizes) const {
    local_array out = *this;
    out.shape = sizes;
    return out;
  }
};

namespace detail {
/// Elements of `whole` from `first` on, as what lies in memory that somebody else keeps.
inline local_array seen(const local_array& whole, std::int64_t first, const shape& sizes) {
  const auto offset = first * static_cast<std::int64_t>(size_of(whole.type));
  return local_array(whole.as<std::byte>() + offset, whole.type, sizes);
}
}  // namespace detail

}  // namespace weft
