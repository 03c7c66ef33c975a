// The words of rows: softmax, RMSNorm, LayerNorm, forward and backward. Invariant: a sum over rows is made of the parts
// of blocks whose number the rows' shape decides, in order.
#pragma once

#include <weft/backend/cuda/kernels/functions.hpp>
#include <weft/backend/cuda/kernels/layer_norm.hpp>
#include <weft/backend/cuda/kernels/norm_tile.hpp>
#include <weft/backend/cuda/kernels/rms_norm.hpp>
#include <weft/backend/cuda/kernels/softmax.hpp>
#include <weft/backend/cuda/kernels/softmax_tile.hpp>
#include <weft/backend/cuda/kernels/sum_parts.hpp>
#include <weft/backend/cuda/queue.hpp>

namespace weft::gpu {

template <class Queue>
struct norm_words {
  using queue = Queue;

  /// Over the middle dimension of [outer, n, inner]; y may be x, dx may be dy.
  template <class T>
  static void softmax(queue& q, std::int64_t outer, std::int64_t n, std::int64_t inner, const T* x, T* y) {
    const bool packed = inner == 1 && n % pack_size<T> == 0 && aligned_for_packs(x, y);
    if (const row_groups g = groups_of<T>(outer, n, packed); g.warps > 0)
      return start_tiles(q, g, softmax_tile_kernel<T>{g, x, y});
    warp_for_each(q, outer * inner, softmax_kernel<T>{outer, n, inner, x, y});
  }
  template <class T>
  static void softmax_backward(queue& q, std::int64_t outer, std::int64_t n, std::int64_t inner, const T* y,
                               const T* dy, T* dx, bool add) {
    const bool packed = inner == 1 && n % pack_size<T> == 0 && aligned_for_packs(y, dy, dx);
    if (const row_groups g = groups_of<T>(outer, n, packed); g.warps > 0)
      return start_tiles(q, g, softmax_tile_backward_kernel<T>{g, y, dy, dx, add});
    warp_for_each(q, outer * inner, softmax_backward_kernel<T>{outer, n, inner, y, dy, dx, add});
  }

  /// y = x * rstd * weight over rows.
  template <class T>
  static void rms_norm(queue& q, std::int64_t rows, std::int64_t width, double eps, const T* x, const T* weight, T* y,
                       accumulate_t<T>* rstd) {
    const auto e = static_cast<accumulate_t<T>>(eps);
    const bool packed = width % pack_size<T> == 0 && aligned_for_packs(x, weight, y);
    if (const row_groups g = groups_of<T>(rows, width, packed); g.warps > 0)
      return start_tiles(q, g, norm_tile_kernel<T, false>{g, e, x, weight, nullptr, y, nullptr, rstd});
    block_for_each(q, rows, warp_scratch<Queue, accumulate_t<T>>,
                   rms_norm_kernel<T>{rows, width, e, x, weight, y, rstd, packed});
  }
  /// dx (+)=, dweight (+)=; each may be null.
  template <class T, class G>
  static void rms_norm_backward(queue& q, std::int64_t rows, std::int64_t width, const T* x, const T* weight,
                                const accumulate_t<T>* rstd, const T* dy, T* dx, bool add_dx, G* dweight,
                                bool add_dweight) {
    using A = accumulate_t<T>;
    const bool packed = width % pack_size<T> == 0 && aligned_for_packs(x, weight, dy, dx);
    const row_groups g = groups_of<T>(rows, width, packed);
    const int64 blocks = blocks_for_parts(g);
    A* parts = dweight ? static_cast<A*>(q.scratch(static_cast<std::size_t>(blocks * width) * sizeof(A))) : nullptr;
    if (g.warps > 0)
      q.start(blocks, norm_tile_backward_kernel<T, false>::shared_bytes(width, block_warps),
              norm_tile_backward_kernel<T, false>{g, x, weight, nullptr, rstd, dy, dx, add_dx, parts, nullptr});
    else
      q.start(blocks, warp_scratch<Queue, A>,
              rms_norm_backward_kernel<T>{rows, width, x, weight, rstd, dy, dx, add_dx, parts, packed});
    if (dweight) add_parts(q, blocks, width, parts, dweight, add_dweight);
  }
  /// y = (x - mean) * rstd * weight + bias over rows.
  template <class T>
  static void layer_norm(queue& q, std::int64_t rows, std::int64_t width, double eps, const T* x, const T* weight,
                         const T* bias, T* y, double* mean, accumulate_t<T>* rstd) {
    const auto e = static_cast<accumulate_t<T>>(eps);
    const bool packed = width % pack_size<T> == 0 && aligned_for_packs(x, weight, bias, y);
    if (const row_groups g = groups_of<T>(rows, width, packed); g.warps > 0)
      return start_tiles(q, g, norm_tile_kernel<T, true>{g, e, x, weight, bias, y, mean, rstd});
    block_for_each(q, rows, warp_scratch<Queue, double>,
                   layer_norm_kernel<T>{rows, width, e, x, weight, bias, y, mean, rstd, packed});
  }
  /// h = x + r and y = rms_norm(h): in one pass where a block holds rows, else in two.
  template <class T>
  static void add_rms_norm(queue& q, std::int64_t rows, std::int64_t width, double eps, const T* x, const T* r,
                           const T* weight, T* h, T* y, accumulate_t<T>* rstd) {
    const bool packed = width % pack_size<T> == 0 && aligned_for_packs(x, r, weight, h, y);
    if (const row_groups g = groups_of<T>(rows, width, packed); g.warps > 0)
      return start_tiles(q, g,
                         norm_tile_kernel<T, false, true>{g, static_cast<accumulate_t<T>>(eps), x, weight, nullptr, y,
                                                          nullptr, rstd, r, h});
    add(q, rows * width, x, r, h);
    rms_norm(q, rows, width, eps, static_cast<const T*>(h), weight, y, rstd);
  }
  /// The same with y = layer_norm(h).
  template <class T>
  static void add_layer_norm(queue& q, std::int64_t rows, std::int64_t width, double eps, const T* x, const T* r,
                             const T* weight, const T* bias, T* h, T* y, double* mean, accumulate_t<T>* rstd) {
    const bool packed = width % pack_size<T> == 0 && aligned_for_packs(x, r, weight, bias, h, y);
    if (const row_groups g = groups_of<T>(rows, width, packed); g.warps > 0)
      return start_tiles(
          q, g,
          norm_tile_kernel<T, true, true>{g, static_cast<accumulate_t<T>>(eps), x, weight, bias, y, mean, rstd, r, h});
    add(q, rows * width, x, r, h);
    layer_norm(q, rows, width, eps, static_cast<const T*>(h), weight, bias, y, mean, rstd);
  }
  /// dx (+)=, dweight (+)=, dbias (+)=; each may be null.
  template <class T, class G>
  static void layer_norm_backward(queue& q, std::int64_t rows, std::int64_t width, const T* x, const T* weight,
                                  const double* mean, const accumulate_t<T>* rstd, const T* dy, T* dx, bool add_dx,
                                  G* dweight, bool add_dweight, G* dbias, bool add_dbias) {
    using A = accumulate_t<T>;
    const bool packed = width % pack_size<T> == 0 && aligned_for_packs(x, weight, dy, dx);
    const row_groups g = groups_of<T>(rows, width, packed);
    const int64 blocks = blocks_for_parts(g), each = blocks * width;
    A* const parts = static_cast<A*>(q.scratch(static_cast<std::size_t>(2 * each) * sizeof(A)));
    A *const of_weight = dweight ? parts : nullptr, *const of_bias = dbias ? parts + each : nullptr;
    if (g.warps > 0)
      q.start(blocks, norm_tile_backward_kernel<T, true>::shared_bytes(width, block_warps),
              norm_tile_backward_kernel<T, true>{g, x, weight, mean, rstd, dy, dx, add_dx, of_weight, of_bias});
    else
      q.start(blocks, warp_scratch<Queue, A>,
              layer_norm_backward_kernel<T>{rows, width, x, weight, mean, rstd, dy, dx, add_dx, of_weight, of_bias,
                                            packed});
    if (dweight) add_parts(q, blocks, width, of_weight, dweight, add_dweight);
    if (dbias) add_parts(q, blocks, width, of_bias, dbias, add_dbias);
  }

 private:
  static constexpr int block_warps = Queue::block_threads / warp_size;

  // The fewest warps that hold a row; none where not even a block does.
  template <class T>
  static row_groups groups_of(int64 rows, int64 width, bool packed) {
    if (!packed) return {rows, width, 0};
    for (int warps = 1; warps <= block_warps; warps *= 2)
      if (width <= int64{warps} * warp_size * row_tile<T>::chunks * pack_size<T>) return {rows, width, warps};
    return {rows, width, 0};
  }
  // Blocks that have all rows once; a block without a group takes a row at a time.
  static int64 blocks_of(const row_groups& g) {
    const int64 at_once = g.warps > 0 ? block_warps / g.warps : 1;
    return (g.rows + at_once - 1) / at_once;
  }
  // Of those that each make a part of a sum over the rows.
  static int64 blocks_for_parts(const row_groups& g) { return std::min<int64>(blocks_of(g), part_blocks); }
  template <class T>
  static void add(queue& q, int64 n, const T* x, const T* r, T* h) {
    over_elements<T>(q, n, binary_kernel<T>{binary::add, n, x, r, h, aligned_for_packs(x, r, h)});
  }
  template <class Kernel>
  static void start_tiles(queue& q, const row_groups& g, const Kernel& kernel) {
    block_for_each(q, blocks_of(g), warp_scratch<Queue, double>, kernel);
  }
  template <class A, class G>
  static void add_parts(queue& q, int64 count, int64 width, const A* parts, G* out, bool add) {
    block_for_each(q, (width + warp_size - 1) / warp_size, std::size_t{Queue::block_threads} * sizeof(A),
                   sum_parts_kernel<A, G>{count, width, parts, out, add});
  }
};

}  // namespace weft::gpu
