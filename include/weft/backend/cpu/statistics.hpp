// What a monitor asks of an array: its squares, extremes and how much of it is not finite, in one pass; and those
// elements set to zero. Invariant: the order of every sum depends on the length alone.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/backend/cpu/elementwise.hpp>
#include <weft/backend/cpu/scratch.hpp>
#include <weft/backend/cpu/vmath.hpp>

#define WEFT_KERNELS <weft/backend/cpu/statistics.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu {

namespace detail {

template <class T>
array_statistics statistics_block(int64 n, const T* x) {
  WEFT_DISPATCH(statistics_block, n, x);
}
/// 16-bit elements widened first, so that the kernel is compiled for float and double only.
template <class T>
array_statistics widened_statistics(int64 n, const T* x) {
  if constexpr (sizeof(T) == 2) {
    alignas(64) float wide[1024];
    array_statistics all;
    for (int64 i = 0; i < n; i += 1024) {
      const int64 count = n - i < 1024 ? n - i : 1024;
      convert_block(count, x + i, wide, false);
      all.join(statistics_block(count, static_cast<const float*>(wide)));
    }
    return all;
  } else {
    return statistics_block(n, x);
  }
}
template <class T>
int64 zero_not_finite_block(int64 n, T* x) {
  WEFT_DISPATCH(zero_not_finite_block, n, x);
}

}  // namespace detail

/// Squares and their sum in double, blocks in order.
template <class T>
array_statistics statistics(team& workers, int64 n, const T* x) {
  array_statistics all;
  if (n <= 0) return all;
  const int64 blocks = detail::blocks_of(n);
  const detail::using_stack own(workers.stack());
  const scratch memory(static_cast<std::size_t>(blocks) * sizeof(array_statistics));
  auto* const parts = memory.as<array_statistics>();
  detail::for_blocks(workers, n, detail::block_elements, [=](int64 begin, int64 end) {
    parts[begin / detail::block_elements] = detail::widened_statistics(end - begin, x + begin);
  });
  for (int64 i = 0; i < blocks; ++i) all.join(parts[i]);
  return all;
}

/// x[i] = 0 where it is NaN or infinite. Returns how many were.
template <class T>
int64 zero_not_finite(team& workers, int64 n, T* x) {
  if (n <= 0) return 0;
  const int64 blocks = detail::blocks_of(n);
  const detail::using_stack own(workers.stack());
  const scratch memory(static_cast<std::size_t>(blocks) * sizeof(int64));
  auto* const parts = memory.as<int64>();
  detail::for_blocks(workers, n, detail::block_elements, [=](int64 begin, int64 end) {
    parts[begin / detail::block_elements] = detail::zero_not_finite_block(end - begin, x + begin);
  });
  int64 all = 0;
  for (int64 i = 0; i < blocks; ++i) all += parts[i];
  return all;
}

}  // namespace weft::cpu
