// A parameter's matrices made whole for an optimizer of that grain. Invariant: the same matrices on every rank that
// holds a part of them, without padding, whatever the placement.
#pragma once

#include <weft/nn/matrix_form.hpp>
#include <weft/optim/optimizer.hpp>

namespace weft::detail {

/// Sizes of the matrices of which a slice is, or is a part of.
struct matrix_sizes {
  std::int64_t count = 1, rows = 0, columns = 1;  // count: of this rank's
};
WEFT_LINKED matrix_sizes sizes_of(const placed_slice& at, const matrix_form& form) {
  matrix_sizes out;
  for (int d = 0; d < at.ndim; ++d) {
    if (form.stacked[d])
      out.count *= at.valid[d];
    else if (out.rows == 0)
      out.rows = at.global[d];
    else
      out.columns *= at.global[d];
  }
  return out;
}

/// Calls f(whole_matrices) for the matrices of x, this rank's slice of a parameter, padding included, and leaves in x
/// its own part of what f made of them; returns their sizes. Where ranks hold parts of a matrix, every one of them
/// works on the whole: cost an all-reduce of it for each such axis. Every rank of these calls it.
template <class Backend, class M, class F>
matrix_sizes on_whole_matrices(context& ctx, const placed_slice& at, const matrix_form& form, const local_array& x,
                               F&& f) {
  const matrix_sizes sizes = sizes_of(at, form);
  const std::int64_t n = sizes.count * sizes.rows * sizes.columns;
  if (n == 0) return sizes;
  const local_array whole = ctx.make(dtype_of<M>, shape{1, {n}}, memory::buffers);
  auto& queue = ctx.queue<Backend>();
  // In `whole` the stacked dimensions come first.
  std::int64_t of_slice[max_ndim], of_whole[max_ndim], extents[max_ndim], stride = 1, first = 0, elements = 1;
  row_major(x.shape, of_slice);
  for (const bool stacked : {false, true})
    for (int d = at.ndim - 1; d >= 0; --d)
      if (form.stacked[d] == stacked) {
        of_whole[d] = stride;
        stride *= stacked ? at.valid[d] : at.global[d];
        if (!stacked) first += at.first[d] * of_whole[d];
      }
  for (int d = 0; d < at.ndim; ++d) elements *= extents[d] = at.valid[d];
  const local_array own(whole.template as<M>() + (elements > 0 ? first : 0), dtype_of<M>, whole.shape);
  bool cut = false;
  for (const axis_id axis : form.cut_by) cut = cut || ctx.along(axis).degree > 1;
  if (cut) Backend::zero(queue, whole);
  if (elements > 0) Backend::copy(queue, at.ndim, extents, x, of_slice, own, of_whole);
  for (const axis_id axis : form.cut_by)
    if (axis_group& group = ctx.along(axis); group.degree > 1)
      group.comm.all_reduce(whole.data, whole.data, n, dtype_of<M>, reduction::sum, {"whole matrices"})
          .wait(ctx.order());
  f(whole_matrices<Backend, M>{ctx, sizes.count, sizes.rows, sizes.columns, whole.template as<M>()});
  if (elements > 0) Backend::copy(queue, at.ndim, extents, own, of_whole, x, of_slice);
  return sizes;
}

}  // namespace weft::detail
