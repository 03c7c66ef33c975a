// The words of reductions: over any dimensions, their way back, and what is said of a whole array.
// Invariant: the order of every sum depends on the shape, and on whether arrays are aligned for packs, alone.
#pragma once

#include <vector>

#include <weft/backend/cuda/kernels/reductions.hpp>
#include <weft/backend/cuda/kernels/statistics.hpp>
#include <weft/backend/cuda/queue.hpp>

namespace weft::gpu {

template <class Queue>
struct reduction_words {
  using queue = Queue;

  /// y (+)= x reduced over the dimensions where `reduced` is true; x contiguous, y the kept extents in order. Nothing
  /// reduced gives 0, -infinity (max) or infinity (min).
  template <reduce Kind, class T, class Out>
  static void reduce_dims(queue& q, int ndim, const std::int64_t* extents, const bool* reduced, const T* x, Out* y,
                          bool add) {
    require(ndim >= 0 && ndim <= max_ndim, "reduce_dims takes at most ", max_ndim, " dimensions, not ", ndim,
            ": join dimensions first.");
    some_dimensions kept, gone;
    bool outputs_are_neighbours = false;
    int64 stride = 1;
    for (int d = ndim - 1, before = -1; d >= 0; stride *= extents[d--]) {
      some_dimensions& to = reduced[d] ? gone : kept;
      to.elements *= extents[d];
      if (extents[d] == 1) continue;
      if (before == reduced[d]) {
        to.extent[to.ndim - 1] *= extents[d];
      } else {
        if (before < 0) outputs_are_neighbours = !reduced[d];
        to.extent[to.ndim] = extents[d], to.stride[to.ndim++] = stride;
      }
      before = reduced[d];
    }
    if (kept.elements == 0) return;
    if (outputs_are_neighbours && kept.extent[0] >= warp_size)
      reduce_pieces<Kind, true>(q, kept, gone, x, y, add);
    else
      reduce_pieces<Kind, false>(q, kept, gone, x, y, add);
  }

  /// x (+)= y repeated along the dimensions where `reduced` is true. Layouts as in reduce_dims.
  template <class T>
  static void repeat(queue& q, int ndim, const std::int64_t* extents, const bool* reduced, const T* y, T* x, bool add) {
    require(ndim >= 0 && ndim <= max_ndim, "repeat takes at most ", max_ndim, " dimensions, not ", ndim,
            ": join dimensions first.");
    int64 strides[max_ndim] = {}, kept = 1;
    for (int d = ndim - 1; d >= 0; --d)
      if (!reduced[d]) strides[d] = kept, kept *= extents[d];
    const auto loop = strided_loop<1>::over(ndim, extents, {strides}, pack_size<T>, aligned_for_packs(x, y));
    over_elements<T>(q, loop.n, repeat_kernel<T>{loop, y, x, add}, 1);
  }

  /// *to (+)= the sum of x * x, in double.
  template <class T>
  static void sum_of_squares(queue& q, std::int64_t n, const T* x, double* to, bool add) {
    const int64 blocks = parts_of(n);
    auto* const parts = static_cast<double*>(q.scratch(static_cast<std::size_t>(blocks) * sizeof(double)));
    q.start(blocks, warp_scratch<Queue, double>, squares_kernel<T>{n, x, parts, to, add, aligned_for_packs(x)});
    if (blocks > 1) q.start(1, warp_scratch<Queue, double>, sum_squares_kernel{blocks, parts, to, add});
  }
  /// What one pass over an array says of it. Waits for the queue.
  template <class T>
  static array_statistics statistics(queue& q, std::int64_t n, const T* x) {
    array_statistics all;
    if (n <= 0) return all;
    const int64 blocks = parts_of(n);
    auto* const parts =
        static_cast<array_statistics*>(q.scratch(static_cast<std::size_t>(blocks) * sizeof(array_statistics)));
    q.start(blocks, warp_scratch<Queue, double>, statistics_kernel<T>{n, x, parts});
    for (const array_statistics& part : on_the_host(q, parts, blocks)) all.join(part);
    return all;
  }
  /// x = 0 where it is NaN or infinite. Returns how many were. Waits for the queue.
  template <class T>
  static std::int64_t zero_not_finite(queue& q, std::int64_t n, T* x) {
    if (n <= 0) return 0;
    const int64 blocks = parts_of(n);
    auto* const parts = static_cast<int64*>(q.scratch(static_cast<std::size_t>(blocks) * sizeof(int64)));
    q.start(blocks, warp_scratch<Queue, int64>, zero_not_finite_kernel<T>{n, x, parts});
    int64 all = 0;
    for (const int64 part : on_the_host(q, parts, blocks)) all += part;
    return all;
  }

 private:
  static constexpr int64 row_piece = 4096, column_piece = 64;  // inputs that a warp, or a thread, joins
  /// Of an array of n elements: a block each.
  static int64 parts_of(int64 n) { return std::clamp<int64>(n / 8192, 1, 1024); }

  /// The first kernel leaves parts of each output, which others join.
  template <reduce Kind, bool Columns, class In, class Out>
  static void reduce_pieces(queue& q, const some_dimensions& kept, const some_dimensions& gone, const In* x, Out* y,
                            bool add) {
    using A = accumulate_t<In>;
    constexpr int64 length = Columns ? column_piece : row_piece;
    const auto pieces_of = [](int64 inputs) { return inputs > length ? (inputs + length - 1) / length : 1; };
    const int64 first = pieces_of(gone.elements);
    int64 room = 0;  // parts of an output, and of these, and so on
    for (int64 pieces = first; pieces > 1; pieces = pieces_of(pieces)) room += pieces;
    A* parts = room ? static_cast<A*>(q.scratch(static_cast<std::size_t>(kept.elements * room) * sizeof(A))) : nullptr;
    start<Kind, Columns>(q, kept, gone, x, reduction_target<A, Out>{first, length, parts, y, add});
    for (int64 pieces = first; pieces > 1;) {
      const int64 fewer = pieces_of(pieces);
      some_dimensions outputs, of_output;
      outputs.ndim = of_output.ndim = 1;
      outputs.elements = outputs.extent[0] = kept.elements, outputs.stride[0] = Columns ? 1 : pieces;
      of_output.elements = of_output.extent[0] = pieces, of_output.stride[0] = Columns ? kept.elements : 1;
      A* const next = parts + kept.elements * pieces;
      start<Kind, Columns>(q, outputs, of_output, static_cast<const A*>(parts),
                           reduction_target<A, Out>{fewer, length, next, y, add});
      pieces = fewer, parts = next;
    }
  }
  template <reduce Kind, bool Columns, class In, class Out>
  static void start(queue& q, const some_dimensions& kept, const some_dimensions& gone, const In* x,
                    const reduction_target<accumulate_t<In>, Out>& to) {
    if constexpr (Columns) {
      constexpr int P = pack_size<accumulate_t<In>>;
      bool packed = aligned_for_packs(x, to.parts, to.y) && kept.extent[0] % P == 0;
      for (int d = 1; d < kept.ndim; ++d) packed = packed && kept.stride[d] % P == 0;
      for (int d = 0; d < gone.ndim; ++d) packed = packed && gone.stride[d] % P == 0;
      over_elements<In>(q, kept.elements / (packed ? P : 1) * to.pieces,
                        reduce_columns_kernel<Kind, In, Out>{kept, gone, x, to, packed}, 1);
    } else {
      warp_for_each(q, kept.elements * to.pieces, reduce_rows_kernel<Kind, In, Out>{kept, gone, x, to});
    }
  }
  template <class Part>
  static std::vector<Part> on_the_host(queue& q, const Part* parts, int64 count) {
    std::vector<Part> out(static_cast<std::size_t>(count));
    q.download(parts, out.data(), out.size() * sizeof(Part));
    return out;
  }
};

}  // namespace weft::gpu
