// Element-wise kernels over contiguous arrays: unary and binary functions, scaling, conversion, filling.
// Invariant: every element is computed in the accumulate type and rounded once.
#pragma once

#include <cstring>
#include <type_traits>

#include <weft/backend/concept.hpp>
#include <weft/backend/cpu/vmath.hpp>

#define WEFT_KERNELS <weft/backend/cpu/elementwise.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu {

namespace detail {

template <class T>
using unary_kernel = void (*)(int64 n, const T* x, const T* dy, T* y, bool add);

template <unary F, class T>
void unary_block(int64 n, const T* x, const T* dy, T* y, bool add) {
  WEFT_DISPATCH(unary_block<F>, n, x, dy, y, add);
}
template <unary F, class T>
void unary_backward_block(int64 n, const T* x, const T* dy, T* dx, bool add) {
  WEFT_DISPATCH(unary_backward_block<F>, n, x, dy, dx, add);
}
template <class T>
[[gnu::noinline]] void unary_blocks(team& workers, unary_kernel<T> kernel, int64 n, const T* x, const T* dy, T* y,
                                    bool add) {
  for_blocks(workers, n, block_elements, [=](int64 begin, int64 end) {
    kernel(end - begin, x + begin, dy ? dy + begin : nullptr, y + begin, add);
  });
}
template <class T>
void binary_block(binary f, int64 n, const T* a, int64 sa, const T* b, int64 sb, T* y) {
  WEFT_DISPATCH(binary_block, f, n, a, sa, b, sb, y);
}
template <class To, class From>
void scale_block(int64 n, accumulate_t<From> factor, const From* x, To* y, bool add) {
  WEFT_DISPATCH(scale_block, n, factor, x, y, add);
}
template <class To, class From>
void convert_block(int64 n, const From* x, To* y, bool add) {
  WEFT_DISPATCH(convert_block, n, x, y, add);
}

/// Types whose vectors are vectors of float.
template <class T>
inline constexpr bool in_float = floating<T> && sizeof(T) < 8;

}  // namespace detail

/// y = F(x), n elements; y may be x.
template <unary F, class T>
void apply(team& workers, int64 n, const T* x, T* y) {
  detail::unary_blocks<T>(workers, detail::unary_block<F, T>, n, x, nullptr, y, false);
}

/// dx (+)= F'(x) * dy; dx may be dy.
template <unary F, class T>
void apply_backward(team& workers, int64 n, const T* x, const T* dy, T* dx, bool add) {
  detail::unary_blocks<T>(workers, detail::unary_backward_block<F, T>, n, x, dy, dx, add);
}

/// y = f(a, b), all of n elements; y may be a or b.
template <class T>
void apply(team& workers, binary f, int64 n, const T* a, const T* b, T* y) {
  detail::for_blocks(workers, n, detail::block_elements, [=](int64 begin, int64 end) {
    detail::binary_block(f, end - begin, a + begin, 1, b + begin, 1, y + begin);
  });
}

/// y (+)= factor * x.
template <class T>
void scale(team& workers, int64 n, const kernel_number& factor, const T* x, T* y, bool add) {
  if (!factor.writes()) return;
  const auto by = static_cast<accumulate_t<T>>(factor.value());
  detail::for_blocks(workers, n, detail::block_elements,
                     [=](int64 begin, int64 end) { detail::scale_block(end - begin, by, x + begin, y + begin, add); });
}

namespace detail {

/// y (+)= x, n elements of one task.
template <class To, class From>
void convert_elements(int64 n, const void* from, void* to, bool add) {
  const From* const x = static_cast<const From*>(from);
  To* const y = static_cast<To*>(to);
  if constexpr (in_float<To> && in_float<From> && sizeof(To) + sizeof(From) == 4 && !std::is_same_v<To, From>) {
    // Between the two 16-bit types: by way of float, which holds every value of either.
    alignas(64) float wide[256];
    for (int64 i = 0; i < n; i += 256) {
      const int64 count = n - i < 256 ? n - i : 256;
      convert_block(count, x + i, wide, false);
      convert_block(count, static_cast<const float*>(wide), y + i, add);
    }
  } else if constexpr ((in_float<To> && in_float<From>) ||
                       (std::is_same_v<To, double> && std::is_same_v<From, double>)) {
    convert_block(n, x, y, add);
  } else if constexpr (std::is_integral_v<From> && sizeof(From) >= 4 && sizeof(To) == 2) {
    for (int64 i = 0; i < n; ++i) y[i] = add ? narrow<To>(widen(y[i]) + static_cast<float>(x[i])) : To(x[i]);
  } else {
    using A = std::conditional_t<floating<From>, accumulate_t<From>, accumulate_t<To>>;
    for (int64 i = 0; i < n; ++i) {
      const auto value = static_cast<A>(x[i]);
      y[i] = add ? narrow<To>(widen(y[i]) + value) : narrow<To>(value);
    }
  }
}

using convert_kernel = void (*)(int64 n, const void* x, void* y, bool add);

WEFT_LINKED void convert(team& workers, int64 n, convert_kernel kernel, const void* x, std::size_t x_size, void* y,
                         std::size_t y_size, bool add) {
  for_blocks(workers, n, block_elements, [=](int64 begin, int64 end) {
    kernel(end - begin, static_cast<const char*>(x) + begin * static_cast<int64>(x_size),
           static_cast<char*>(y) + begin * static_cast<int64>(y_size), add);
  });
}

}  // namespace detail

/// y (+)= x, converted to the element type of y.
template <class To, class From>
void convert(team& workers, int64 n, const From* x, To* y, bool add = false) {
  detail::convert(workers, n, detail::convert_elements<To, From>, x, sizeof(From), y, sizeof(To), add);
}

namespace detail {

/// One element of `size` bytes, n times.
WEFT_LINKED void fill(team& workers, int64 n, std::size_t size, const void* value, void* y) {
  const auto bytes = static_cast<int64>(size);
  for_blocks(workers, n, block_elements, [=](int64 begin, int64 end) {
    char* const to = static_cast<char*>(y) + begin * bytes;
    std::memcpy(to, value, size);
    for (int64 done = 1, all = end - begin; done < all;) {  // what is there, once more
      const int64 more = all - done < done ? all - done : done;
      std::memcpy(to + done * bytes, to, static_cast<std::size_t>(more * bytes));
      done += more;
    }
  });
}

}  // namespace detail

/// y = value, n times.
template <class T>
void fill(team& workers, int64 n, T value, T* y) {
  detail::fill(workers, n, sizeof(T), &value, y);
}

}  // namespace weft::cpu
