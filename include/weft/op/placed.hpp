// Where this rank's share of a tensor lies in the whole of it. Padding is nobody's: it may hold anything, NaN too.
// Invariant: whoever adds up along a dimension, counts in it or gathers it, leaves its padding out; the rest may
// compute in it what it likes. So one operator at a time is right on uneven shares, and none pays for even ones.
#pragma once

#include <span>

#include <weft/backend/concept.hpp>
#include <weft/backend/default.hpp>
#include <weft/op/tag_checks.hpp>
#include <weft/tensor/local_run.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft::detail {

WEFT_LINKED placed_slice placed(const context& ctx, std::span<const dimension_type> dimensions, const shape& global) {
  placed_slice at;
  for (const dimension_type& d : dimensions) {
    const std::int64_t n = global[at.ndim];
    const dimension_run run = run_of(ctx, *d.over, n);
    at.local[at.ndim] = run.local, at.first[at.ndim] = run.first, at.valid[at.ndim] = run.valid;
    at.global[at.ndim++] = n;
  }
  return at;
}
/// Of a tensor type with these global extents.
template <any_tensor X>
placed_slice placed(const context& ctx, const shape& global) {
  return placed(ctx, dimensions_of<X>, global);
}
template <any_tensor X>
placed_slice placed(const X& x) {
  return placed<X>(*untyped(x).ctx, untyped(x).whole);
}

WEFT_LINKED shape valid_part(const value& x, std::span<const dimension_type> dimensions) {
  shape out = x.sizes();
  for (std::size_t d = 0; d < dimensions.size(); ++d)
    if (!dimensions[d].over->empty())
      out[static_cast<int>(d)] = run_of(*x.ctx, *dimensions[d].over, x.whole[static_cast<int>(d)]).valid;
  return out;
}
/// The elements of x's share that are not padding, by dimension: the sizes of its share where all ranks' are even.
template <any_tensor X>
shape valid_part(const X& x) {
  constexpr bool sharded = []<class... Es>(dims<Es...>) {
    return ((shard_axes<layout_of<X>, tag_of<Es>>::size > 0) || ...);
  }(dims_of<X>{});
  if constexpr (sharded)
    return valid_part(untyped(x), dimensions_of<X>);
  else
    return untyped(x).sizes();
}

/// Calls f(local index, global index) for every element that this rank holds; both count row-major. Padding has the
/// index -1.
template <class F>
void each_element(const placed_slice& slice, F&& f) {
  std::int64_t at[max_ndim] = {}, n = 1;
  for (int d = 0; d < slice.ndim; ++d) n *= slice.local[d];
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t g = 0;
    bool inside = true;
    for (int d = 0; d < slice.ndim; ++d) {
      g = g * slice.global[d] + slice.first[d] + at[d];
      inside = inside && at[d] < slice.valid[d];
    }
    f(i, inside ? g : -1);
    for (int d = slice.ndim - 1; d >= 0 && ++at[d] == slice.local[d]; --d) at[d] = 0;
  }
}

inline void row_major(const shape& s, std::int64_t* out) {
  std::int64_t stride = 1;
  for (int d = s.ndim - 1; d >= 0; --d) out[d] = std::exchange(stride, stride * s[d]);
}

/// Copies the first elements of every dimension, `part` of them, from an array of one shape into one of another.
template <class Backend>
void copy_part(context& ctx, const shape& part, const local_array& from, const local_array& to) {
  if (part.elements() == 0) return;
  std::int64_t of_from[max_ndim], of_to[max_ndim];
  row_major(from.shape, of_from);
  row_major(to.shape, of_to);
  Backend::copy(ctx.queue<Backend>(), part.ndim, part.extent, from, of_from, to, of_to);
}

/// x with `number` in its padding; x itself where there is none.
template <class Backend>
local_array with_padding(context& ctx, const local_array& x, const shape& valid, double number = 0) {
  if (valid == x.shape) return x;
  const local_array y = ctx.make(x.type, x.shape, memory::buffers);
  Backend::fill(ctx.queue<Backend>(), y, number);
  copy_part<Backend>(ctx, valid, x, y);
  return y;
}

}  // namespace weft::detail
