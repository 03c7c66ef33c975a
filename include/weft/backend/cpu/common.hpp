// What every CPU kernel shares: widening and rounding of elements, and the cutting of work into blocks.
// Invariant: blocks depend on the problem alone, never on the team, so results are the same for every team size.
#pragma once

#include <cstdint>

#include <weft/backend/concept.hpp>
#include <weft/backend/cpu/team.hpp>
#include <weft/core/dtype.hpp>

namespace weft::cpu {

using int64 = std::int64_t;

namespace detail {

/// An element in the type its arithmetic is done in.
template <class T>
inline accumulate_t<T> widen(T x) {
  return static_cast<accumulate_t<T>>(x);
}

/// A number rounded (once) to an element.
template <class T, class A>
inline T narrow(A x) {
  return static_cast<T>(x);
}

/// Stores `x`, or adds it: the sum is formed in the accumulate type and rounded once.
template <class T, class A>
inline void put(T& y, A x, bool add) {
  y = add ? narrow<T>(static_cast<A>(widen(y)) + x) : narrow<T>(x);
}

inline constexpr int64 block_elements = 16384;  // elements of one task of a streaming kernel
constexpr int64 blocks_of(int64 n, int64 block = block_elements) { return (n + block - 1) / block; }
/// Rows of `width` elements that are one task.
constexpr int64 rows_at_once(int64 width) {
  return width >= block_elements ? 1 : block_elements / (width > 0 ? width : 1);
}

/// Calls f(begin, end) for consecutive blocks of [0, n).
template <class F>
inline void for_blocks(team& workers, int64 n, int64 block, F f) {
  if (n <= 0) return;
  workers.parallel_for(blocks_of(n, block), [&](int64 task) {
    const int64 begin = task * block;
    f(begin, n - begin < block ? n : begin + block);
  });
}

/// Calls f(begin, end) for consecutive groups of rows of `width` elements each, about block_elements a group.
template <class F>
inline void for_rows(team& workers, int64 rows, int64 width, F f) {
  for_blocks(workers, rows, rows_at_once(width), f);
}

}  // namespace detail
}  // namespace weft::cpu
