// Folds the same range of several ranks' buffers into one, in the order given, and stores it to one or more outputs.
// Invariant: every element is folded in the order of the inputs; the result depends on nothing else.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#include "weft/comm/call.hpp"
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

/// out[i] = a[i] ∘ b[i]; out may be a or b. In vectors where there is much of it: not for integers, which are counts
/// and flags.
template <class How, class T>
void combine(T* out, const T* a, const T* b, std::int64_t count) {
  std::int64_t i = 0;
#ifdef WEFT_DETAIL_VECTORS
  if constexpr (std::is_floating_point_v<T>) {
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

/// to[i] = the fold over k of in[k][i], `count` elements; a whole block at a time.
using fold_kernel = void (*)(reduction how, void* to, const void* const* in, int inputs, std::int64_t count);

template <class T>
void fold_block(reduction how, void* to, const void* const* in, int inputs, std::int64_t count) {
  using bits = std::conditional_t<std::is_same_v<T, std::int32_t>, std::uint32_t,
                                  std::conditional_t<std::is_same_v<T, std::int64_t>, std::uint64_t, T>>;
  const auto each = [&]<class How, class U>(How, U* out) {
    for (int k = 1; k < inputs; ++k)
      combine<How>(out, static_cast<const U*>(k == 1 ? in[0] : to), static_cast<const U*>(in[k]), count);
  };
  if (how == reduction::sum) each(add(), static_cast<bits*>(to));  // unsigned, so that integers wrap
  if (how == reduction::max) each(take_max(), static_cast<T*>(to));
  if (how == reduction::min) each(take_min(), static_cast<T*>(to));
}

/// a = a ∘ b.
template <class V>
void apply(reduction how, V& a, const V& b) {
  if (how == reduction::sum) return add::apply(a, b);
  return how == reduction::max ? take_max::apply(a, b) : take_min::apply(a, b);
}

/// The same for 16-bit floats: folded in float, rounded once. Widening and rounding outweigh the choice of the
/// function.
template <class T>
void fold_narrow_block(reduction how, void* to, const void* const* in, int inputs, std::int64_t count) {
  T* const out = static_cast<T*>(to);
  const auto input = [&](int k) { return static_cast<const T*>(in[k]); };
  std::int64_t i = 0;
#ifdef WEFT_DETAIL_VECTORS
  for (const std::int64_t whole = count / 8 * 8; i < whole; i += 8) {
    four_f32 x, y, u, v;
    load_wide(x, y, input(0) + i);
    for (int k = 1; k < inputs; ++k) {
      load_wide(u, v, input(k) + i);
      apply(how, x, u);
      apply(how, y, v);
    }
    store_narrow(out + i, x, y);
  }
#endif
  for (; i < count; ++i) {
    float x = static_cast<float>(input(0)[i]);
    for (int k = 1; k < inputs; ++k) apply(how, x, static_cast<float>(input(k)[i]));
    out[i] = T(x);
  }
}

WEFT_LINKED void fold(dtype type, reduction how, const fold_range& range) {
  const auto width = static_cast<std::int64_t>(size_of(type));
  const fold_kernel kernel = visit_dtype(type, [&]<class T>() -> fold_kernel {
    if constexpr (sizeof(T) == 2)
      return fold_narrow_block<T>;
    else
      return fold_block<T>;
  });
  alignas(64) std::byte block[fold_block_bytes];
  const std::int64_t most = static_cast<std::int64_t>(fold_block_bytes) / width;
  std::unique_ptr<const void*[]> many;  // more inputs than fit on the stack
  const void* few[16];
  const void** in = few;
  if (range.inputs > 16) many.reset(new const void*[static_cast<std::size_t>(range.inputs)]), in = many.get();
  for (std::int64_t begin = 0; begin < range.count; begin += most) {
    const std::int64_t count = range.count - begin < most ? range.count - begin : most;
    const std::int64_t at = begin * width;
    for (int k = 0; k < range.inputs; ++k) in[k] = range.in[k] + range.from + at;
    // One input is rounded by nothing, but a NaN of 16 bits becomes a quiet one, as in a fold of several.
    if (range.inputs == 1 && width != 2)
      std::memcpy(block, in[0], static_cast<std::size_t>(count * width));
    else
      kernel(how, block, in, range.inputs, count);
    for (int k = 0; k < range.outputs; ++k)
      copy(range.out[k] + range.to + at, block, count * width, range.around_cache);
  }
}

}  // namespace weft::detail
