// Statistics of one rank's share of a tensor. Invariant: padding, where ranks share an extent that they don't divide,
// is left out.
#pragma once

#include <algorithm>

#include <weft/backend/concept.hpp>
#include <weft/tensor/context.hpp>

namespace weft {

/// Statistics of an array of any floating type; of another type, nothing.
template <class Backend>
array_statistics statistics_of(context& ctx, const local_array& x) {
  return visit_dtype(x.type, [&]<class T>() {
    if constexpr (floating<T>)
      return Backend::statistics(ctx.queue<Backend>(), x.elements(), static_cast<const T*>(x.as<T>()));
    else
      return array_statistics();
  });
}

namespace detail {

/// Calls f(begin, count) for the elements begin ... end-1 of a slice, row-major, that lie within the whole: for runs of
/// neighbours, in order.
template <class F>
void each_run_within(const placed_slice& at, std::int64_t begin, std::int64_t end, F&& f) {
  if (begin == end) return;
  int last = at.ndim - 1;  // that has padding
  std::int64_t inner = 1;
  for (; last >= 0 && at.valid[last] == at.local[last]; --last) inner *= at.local[last];
  if (last < 0) return f(begin, end - begin);
  const std::int64_t row = inner * at.local[last], run = inner * at.valid[last];
  for (std::int64_t r = begin / row; r * row < end; ++r) {
    bool inside = true;
    std::int64_t rest = r;
    for (int d = last - 1; d >= 0; rest /= at.local[d--]) inside = inside && rest % at.local[d] < at.valid[d];
    const std::int64_t from = std::max(begin, r * row), to = std::min(end, r * row + run);
    if (inside && from < to) f(from, to - from);
  }
}

}  // namespace detail

/// statistics_of<Backend>, for what is no template by the backend.
using statistics_function = array_statistics (*)(context&, const local_array&);

/// Of x, which is the elements from `first` on of the slice that lies `at`: those within the whole tensor.
WEFT_LINKED array_statistics statistics_of(context& ctx, const local_array& x, const placed_slice& at,
                                           std::int64_t first, statistics_function of) {
  array_statistics all;
  detail::each_run_within(at, first, first + x.elements(), [&](std::int64_t begin, std::int64_t count) {
    auto* data = static_cast<std::byte*>(x.data) + (begin - first) * static_cast<std::int64_t>(size_of(x.type));
    all.join(of(ctx, local_array(data, x.type, {1, {count}})));
  });
  return all;
}
/// The same, on a backend.
template <class Backend>
array_statistics statistics_of(context& ctx, const local_array& x, const placed_slice& at, std::int64_t first) {
  return statistics_of(ctx, x, at, first, statistics_of<Backend>);
}

}  // namespace weft
