// Folds the same range of several ranks' buffers into one, in the order given, and stores it to one or more outputs.
// Invariant: every element is folded in the order of the inputs; the result depends on nothing else.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "weft/comm/concept.hpp"
#include "weft/comm/detail/copy.hpp"
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
  const auto step = [&](std::int64_t at) {
    vector x, y;
    std::memcpy(&x, a + at, sizeof x);
    std::memcpy(&y, b + at, sizeof y);
    How::apply(x, y);
    std::memcpy(out + at, &x, sizeof x);
  };
  for (const std::int64_t whole = count / (4 * width) * (4 * width); i < whole; i += 4 * width) {
    step(i), step(i + width), step(i + 2 * width), step(i + 3 * width);
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
  std::int64_t count;         // elements
  bool around_cache = false;  // outputs that are no input in place are too large to stay in the cache
};

inline constexpr std::size_t fold_block_bytes = 4096;  // stays in the first-level cache until it is stored

/// to[i] = the fold over k of input(k)[i]
template <class How, class T, class Input>
void fold_block(T* to, const Input& input, int inputs, std::int64_t count) {
  if (inputs == 1) std::memcpy(to, input(0), static_cast<std::size_t>(count) * sizeof(T));
  if (inputs > 1) combine<How>(to, input(0), input(1), count);
  for (int k = 2; k < inputs; ++k) combine<How>(to, to, input(k), count);
}

/// The same for 16-bit floats: folded in float, rounded once.
template <class How, class T, class Input>
void fold_narrow_block(T* to, const Input& input, int inputs, std::int64_t count) {
  std::int64_t i = 0;
#ifdef WEFT_DETAIL_VECTORS
  for (const std::int64_t whole = count / 8 * 8; i < whole; i += 8) {
    four_f32 x, y, u, v;
    load_wide(x, y, input(0) + i);
    for (int k = 1; k < inputs; ++k) {
      load_wide(u, v, input(k) + i);
      How::apply(x, u);
      How::apply(y, v);
    }
    store_narrow(to + i, x, y);
  }
#endif
  for (; i < count; ++i) {
    float x = static_cast<float>(input(0)[i]);
    for (int k = 1; k < inputs; ++k) How::apply(x, static_cast<float>(input(k)[i]));
    to[i] = T(x);
  }
}

template <class How, class T>
void fold_as(const fold_range& range) {
  alignas(64) T block[fold_block_bytes / sizeof(T)];
  constexpr auto most = static_cast<std::int64_t>(fold_block_bytes / sizeof(T));
  for (std::int64_t begin = 0; begin < range.count; begin += most) {
    const std::int64_t count = range.count - begin < most ? range.count - begin : most;
    const std::int64_t at = begin * static_cast<std::int64_t>(sizeof(T));
    const auto input = [&](int k) { return reinterpret_cast<const T*>(range.in[k] + range.from + at); };
    if constexpr (sizeof(T) == 2) {
      fold_narrow_block<How>(block, input, range.inputs, count);
    } else {
      fold_block<How>(block, input, range.inputs, count);
    }
    for (int k = 0; k < range.outputs; ++k) {
      copy(range.out[k] + range.to + at, reinterpret_cast<const std::byte*>(block),
           count * static_cast<std::int64_t>(sizeof(T)), range.around_cache);
    }
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
