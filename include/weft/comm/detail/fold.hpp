// Folds the same range of several ranks' buffers into one, in the order given, and stores it to one or more outputs.
// Invariant: every element is folded in the order of the inputs, whatever the range: the result depends on nothing else.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "weft/comm/concept.hpp"
#include "weft/comm/detail/widen.hpp"

namespace weft::detail {

struct add {
  template <class V>
  static void apply(V& a, const V& b) {
    a = a + b;
  }
};
struct take_max {
  template <class V>
  static void apply(V& a, const V& b) {
    a = ((b > a) | (b != b)) ? b : a;
  }
};
struct take_min {
  template <class V>
  static void apply(V& a, const V& b) {
    a = ((b < a) | (b != b)) ? b : a;
  }
};

/// out[i] = a[i] ∘ b[i]; out may be a or b.
template <class How, class T>
void combine(T* out, const T* a, const T* b, std::int64_t count) {
  std::int64_t i = 0;
#ifdef WEFT_DETAIL_VECTORS
  typedef T vector __attribute__((vector_size(16)));
  constexpr std::int64_t width = sizeof(vector) / sizeof(T);
  for (const std::int64_t whole = count / (4 * width) * (4 * width); i < whole; i += 4 * width) {
    vector x[4], y[4];
    std::memcpy(x, a + i, sizeof x);
    std::memcpy(y, b + i, sizeof y);
    for (int k = 0; k < 4; ++k) How::apply(x[k], y[k]);
    std::memcpy(out + i, x, sizeof x);
  }
#endif
  for (; i < count; ++i) {
    T x = a[i];
    How::apply(x, b[i]);
    out[i] = x;
  }
}

/// What to fold: inputs at in[k] + from, outputs at out[k] + to (bytes); an output may be an input in place.
struct fold_range {
  const std::byte* const* in;
  int inputs;
  std::int64_t from;
  std::byte* const* out;
  int outputs;
  std::int64_t to;
  std::int64_t count;  // elements
};

inline constexpr std::int64_t fold_block = 1024;  // elements; the accumulator stays in the first-level cache

template <class How, class T>
void fold_as(const fold_range& range) {
  using sum = std::conditional_t<sizeof(T) == 2, float, T>;
  alignas(64) sum acc[fold_block];
  alignas(64) sum wide[sizeof(T) == 2 ? fold_block : 1];
  alignas(64) T rounded[sizeof(T) == 2 ? fold_block : 1];
  for (std::int64_t begin = 0; begin < range.count; begin += fold_block) {
    const std::int64_t count = range.count - begin < fold_block ? range.count - begin : fold_block;
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    const auto at = begin * static_cast<std::int64_t>(sizeof(T));
    const auto input = [&](int k) { return reinterpret_cast<const T*>(range.in[k] + range.from + at); };
    const T* result;
    if constexpr (sizeof(T) == 2) {
      widen(acc, input(0), count);
      for (int k = 1; k < range.inputs; ++k) {
        widen(wide, input(k), count);
        combine<How>(acc, acc, wide, count);
      }
      narrow(rounded, acc, count);
      result = rounded;
    } else {
      if (range.inputs == 1) std::memcpy(acc, input(0), bytes);
      if (range.inputs > 1) combine<How>(acc, input(0), input(1), count);
      for (int k = 2; k < range.inputs; ++k) combine<How>(acc, acc, input(k), count);
      result = acc;
    }
    for (int k = 0; k < range.outputs; ++k) std::memcpy(range.out[k] + range.to + at, result, bytes);
  }
}

inline void fold(dtype type, reduction how, const fold_range& range) {
  visit_dtype(type, [&]<class T>() {
    using bits = std::conditional_t<std::is_same_v<T, std::int32_t>, std::uint32_t,
                                    std::conditional_t<std::is_same_v<T, std::int64_t>, std::uint64_t, T>>;
    if (how == reduction::sum) return fold_as<add, bits>(range);  // unsigned, so that integers wrap
    if (how == reduction::max) return fold_as<take_max, T>(range);
    return fold_as<take_min, T>(range);
  });
}

}  // namespace weft::detail
