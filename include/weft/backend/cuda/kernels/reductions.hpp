// Reductions over any dimensions of an array, and their way back, as kernel bodies. Invariant: an output is joined in
// pieces whose length the shape alone decides, so that its order doesn't depend on the grid.
// Of n elements, of which o outputs are made, or repeated; pieces of an output are a pass more:
//   reduce_rows_kernel: (n + o) T bytes, n FLOPs
//   reduce_columns_kernel: (n + o) T bytes, n FLOPs
//   repeat_kernel: (n + o) T bytes, 0 FLOPs
#pragma once

#include <weft/backend/cuda/kernels/reduce.hpp>
#include <weft/backend/cuda/kernels/strided.hpp>

namespace weft::gpu {

/// Dimensions of a contiguous array that are all kept or all reduced: neighbours joined, those of 1 left out.
struct some_dimensions {
  static constexpr int most = 4;  // of 8, every other one
  int ndim = 0;
  int64 elements = 1;
  int64 extent[most] = {}, stride[most] = {};  // from the last on

  /// Where the row-major element i of these dimensions lies.
  WEFT_ON_DEVICE int64 offset(int64 i) const {
    int64 at = 0;
    for (int d = 0; d < ndim; ++d) {
      if (d + 1 == ndim) return at + i * stride[d];
      at += i % extent[d] * stride[d];
      i /= extent[d];
    }
    return at;
  }
};

/// What a reduction writes: the number of each output, or of each of its pieces, which are reduced once more.
template <class A, class Out>
struct reduction_target {
  int64 pieces, length;  // pieces of an output, inputs of a piece
  A* parts;              // where there are several: [outputs, pieces], or of columns [pieces, outputs]
  Out* y;
  bool add;

  template <class Block>
  WEFT_ON_DEVICE void put(Block& block, int64 output, int64 piece, A value) const {
    if (pieces > 1)
      parts[output * pieces + piece] = value;
    else
      y[output] = block.template narrow<Out>(add ? static_cast<A>(block.widen(y[output])) + value : value);
  }
  /// The same of N neighbours of so many outputs.
  template <int N, class Block>
  WEFT_ON_DEVICE void put(Block& block, int64 outputs, int64 output, int64 piece, const pack<A, N>& value) const {
    if (pieces > 1) return block.store(parts + piece * outputs + output, value);
    pack<Out, N> out{};
    if (add) out = block.template load<N>(static_cast<const Out*>(y) + output);
    for (int k = 0; k < N; ++k)
      out.at[k] = block.template narrow<Out>(add ? static_cast<A>(block.widen(out.at[k])) + value.at[k] : value.at[k]);
    block.store(y + output, out);
  }
};

/// A warp takes a piece of an output: where what is reduced lies side by side.
template <reduce Kind, class In, class Out>
struct reduce_rows_kernel {
  using A = accumulate_t<In>;
  some_dimensions kept, gone;
  const In* x;
  reduction_target<A, Out> to;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const int64 tasks = kept.elements * to.pieces, warps = block.blocks() * block.warps();
    for (int64 task = block.index() * block.warps() + block.warp(); task < tasks; task += warps) {
      const int64 output = task / to.pieces, piece = task % to.pieces;
      const In* from = x + kept.offset(output);
      const int64 begin = piece * to.length, left = gone.elements - begin, n = left < to.length ? left : to.length;
      A value = start_of<Kind, A>();
      for (int64 i = block.lane(); i < n; i += warp_size)
        value = join<Kind>(value, static_cast<A>(block.widen(from[gone.offset(begin + i)])));
      value = warp_reduce<Kind>(block, value);
      if (block.lane() == 0) to.put(block, output, piece, value);
    }
  }
};

/// A thread takes a piece of an output, or of a pack of them: where outputs lie side by side.
template <reduce Kind, class In, class Out>
struct reduce_columns_kernel {
  using A = accumulate_t<In>;
  some_dimensions kept, gone;
  const In* x;
  reduction_target<A, Out> to;
  bool packed;  // packs of outputs begin at multiples of a pack, in every row, and where they are written

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    if (packed)
      reduce<pack_size<A>>(block);
    else
      reduce<1>(block);
  }

 private:
  template <int N, class Block>
  WEFT_ON_DEVICE void reduce(Block& block) const {
    const int64 outputs = kept.elements / N;
    for_packs_of_grid<1>(block, outputs * to.pieces, false, [&]<int>(int64 task) {
      const int64 output = task % outputs * N, piece = task / outputs;
      const In* from = x + kept.offset(output);
      const int64 begin = piece * to.length, left = gone.elements - begin;
      const int64 end = begin + (left < to.length ? left : to.length);
      pack<A, N> value;
      for (int k = 0; k < N; ++k) value.at[k] = start_of<Kind, A>();
      const auto take = [&](int64 at) {
        const pack<In, N> in = block.template load<N>(from + at);
        for (int k = 0; k < N; ++k) value.at[k] = join<Kind>(value.at[k], static_cast<A>(block.widen(in.at[k])));
      };
      if (gone.ndim == 1) {  // several loads under way at once
        constexpr int at_once = 8;
        int64 i = begin;
        for (; i + at_once <= end; i += at_once)
          WEFT_UNROLLED for (int k = 0; k < at_once; ++k) take((i + k) * gone.stride[0]);
        for (; i < end; ++i) take(i * gone.stride[0]);
      } else {
        for (int64 i = begin; i < end; ++i) take(gone.offset(i));
      }
      to.put(block, kept.elements, output, piece, value);
    });
  }
};

/// x (+)= y repeated.
template <class T>
struct repeat_kernel {
  strided_loop<1> loop;  // y
  const T* y;
  T* x;
  bool add;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<1>(block, loop.n, false, [&]<int>(int64 i) {
      array_of<int64, 1> at;
      loop.offsets(i, at);
      if (loop.neighbours == 1) {
        const T number = y[at[0]];
        x[i] = add ? block.template narrow<T>(block.widen(x[i]) + block.widen(number)) : number;
        return;
      }
      constexpr int N = pack_size<T>;
      pack<T, N> out = loop.template load<N>(block, 0, y + at[0]);
      if (add) {
        const pack<T, N> old = block.template load<N>(static_cast<const T*>(x) + i * N);
        for (int k = 0; k < N; ++k)
          out.at[k] = block.template narrow<T>(block.widen(old.at[k]) + block.widen(out.at[k]));
      }
      block.store(x + i * N, out);
    });
  }
};

}  // namespace weft::gpu
