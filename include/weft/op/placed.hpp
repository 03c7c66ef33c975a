// Where this rank's share of a tensor lies in the whole of it. Padding is nobody's: it may hold anything, NaN too.
// Invariant: whoever adds up along a dimension, counts in it or gathers it, leaves its padding out; the rest may
// compute in it what it likes. So one operator at a time is right on uneven shares, and none pays for even ones.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/backend/default.hpp>
#include <weft/comm/local_run.hpp>
#include <weft/op/tag_checks.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft::detail {

/// Of a tensor type with these global extents.
template <any_tensor X>
placed_slice placed(const context& ctx, const shape& global) {
  placed_slice at;
  [&]<class... Es>(dims<Es...>) {
    (([&] {
       const int d = at.ndim++;
       const dimension_run run = run_of<layout_of<X>, tag_of<Es>>(ctx, global[d]);
       at.local[d] = run.local, at.first[d] = run.first, at.valid[d] = run.valid, at.global[d] = global[d];
     }()),
     ...);
  }(dims_of<X>{});
  return at;
}
template <any_tensor X>
placed_slice placed(const X& x) {
  return placed<X>(*untyped(x).ctx, untyped(x).whole);
}

/// The elements of x's share that are not padding, by dimension: the sizes of its share where all ranks' are even.
template <any_tensor X>
shape valid_part(const X& x) {
  shape out = untyped(x).sizes();
  [&]<class... Es>(dims<Es...>) {
    [[maybe_unused]] int d = 0;
    (([&] {
       if constexpr (shard_axes<layout_of<X>, tag_of<Es>>::size > 0)
         out[d] = run_of<layout_of<X>, tag_of<Es>>(*untyped(x).ctx, untyped(x).whole[d]).valid;
       ++d;
     }()),
     ...);
  }(dims_of<X>{});
  return out;
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
