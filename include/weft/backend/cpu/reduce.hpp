// Reductions: sums, maxima and minima over chosen dimensions, and the sum of squares of an array.
// Invariant: the order of every sum depends on the shape alone.
#pragma once

#include <limits>
#include <vector>

#include <weft/backend/concept.hpp>
#include <weft/backend/cpu/index.hpp>

namespace weft::cpu {

namespace detail {

template <class A>
inline A start_of(reduce kind) {
  if (kind == reduce::sum) return A(0);
  constexpr A infinity = std::numeric_limits<A>::infinity();
  return kind == reduce::max ? -infinity : infinity;
}

template <class A>
inline A join(reduce kind, A a, A b) {
  if (kind == reduce::sum) return a + b;
  return (kind == reduce::max) == (b > a) ? b : a;
}

}  // namespace detail

/// y (+)= x reduced over the dimensions where `reduced` is true; x contiguous, y the kept extents in order, contiguous.
template <class T, class Out>
void reduce_dims(team& workers, reduce kind, int rank, const int64* extents, const bool* reduced, const T* x, Out* y,
                 bool add) {
  using A = accumulate_t<T>;
  int64 kept_extents[max_rank] = {}, kept_strides[max_rank] = {}, summed_extents[max_rank] = {}, summed_strides[max_rank] = {};
  int kept = 0, summed = 0;
  require(rank >= 0 && rank <= max_rank, "reduce_dims takes at most 8 dimensions, not ", rank, ": join dimensions first");
  int64 strides[max_rank] = {}, stride = 1;
  for (int d = rank - 1; d >= 0; --d) strides[d] = stride, stride *= extents[d];
  int64 outputs = 1, inputs = 1;
  for (int d = 0; d < rank; ++d) {
    if (reduced[d]) {
      summed_extents[summed] = extents[d], summed_strides[summed++] = strides[d], inputs *= extents[d];
    } else {
      kept_extents[kept] = extents[d], kept_strides[kept++] = strides[d], outputs *= extents[d];
    }
  }
  const detail::loop<1> outer(kept, kept_extents, {kept_strides});
  const detail::loop<1> inner(summed, summed_extents, {summed_strides});
  detail::for_rows(workers, outputs, inputs, [&](int64 begin, int64 end) {
    for (int64 i = begin; i < end; ++i) {
      const T* from = x + outer.offsets(i / outer.inner())[0] + i % outer.inner() * outer.inner_stride(0);
      A total = detail::start_of<A>(kind);
      if (inputs > 0)
        for (int64 row = 0; row < inner.outer(); ++row) {
          const T* p = from + inner.offsets(row)[0];
          for (int64 j = 0; j < inner.inner(); ++j)
            total = detail::join(kind, total, detail::widen(p[j * inner.inner_stride(0)]));
        }
      detail::put(y[i], total, add);
    }
  });
}

/// Sum of x[i]^2, in double.
template <class T>
double sum_of_squares(team& workers, int64 n, const T* x) {
  std::vector<double> parts(static_cast<std::size_t>((n + detail::block_elements - 1) / detail::block_elements));
  detail::for_blocks(workers, n, detail::block_elements, [&](int64 begin, int64 end) {
    double total = 0;
    for (int64 i = begin; i < end; ++i) {
      const double value = static_cast<double>(detail::widen(x[i]));
      total += value * value;
    }
    parts[static_cast<std::size_t>(begin / detail::block_elements)] = total;
  });
  double total = 0;
  for (double part : parts) total += part;
  return total;
}

}  // namespace weft::cpu
