// Rows that a group of neighbouring warps holds in registers, a few packs to a thread. Invariant: which thread has
// which element depends on the row's width alone, so sums are formed in a fixed order.
#pragma once

#include <weft/backend/cuda/kernels/reduce.hpp>

namespace weft::gpu {

/// How rows are shared out: `warps` of a block take one together. The width is a multiple of a pack, and every row is
/// aligned for packs.
struct row_groups {
  int64 rows, width;
  int warps;
};

/// Which row a thread begins with, and which of its elements it has.
struct row_place {
  int of, group;        // groups of this block, and this thread's
  int thread, threads;  // this one and all of the group
  int64 row;

  template <class Block>
  WEFT_ON_DEVICE row_place(const Block& block, const row_groups& g)
      : of(block.warps() / g.warps),
        group(block.warp() / g.warps),
        thread(block.thread() % (g.warps * warp_size)),
        threads(g.warps * warp_size),
        row(block.index() * of + group) {}
  /// The first column of the thread's pack c.
  template <class T>
  WEFT_ON_DEVICE int64 column(int c) const {
    return (int64{c} * threads + thread) * pack_size<T>;
  }
};

/// A thread's elements of one row.
template <class T>
struct row_tile {
  static constexpr int chunks = 4;
  array_of<pack<T, pack_size<T>>, chunks> at;

  /// Zeros behind the row's end, and of a row that isn't there.
  template <class Block>
  WEFT_ON_DEVICE void load(const Block& block, const row_groups& g, const row_place& place, int64 row, const T* x) {
    WEFT_UNROLLED for (int c = 0; c < chunks; ++c) {
      at[c] = {};
      const int64 i = place.template column<T>(c);
      if (row < g.rows && i < g.width) at[c] = block.template load<pack_size<T>>(x + row * g.width + i);
    }
  }
  /// f(pack, element) for all, and for those that are in the row.
  template <class F>
  WEFT_ON_DEVICE void each(F f) const {
    WEFT_UNROLLED for (int c = 0; c < chunks; ++c) WEFT_UNROLLED for (int k = 0; k < pack_size<T>; ++k)
        f(c, at[c].at[k]);
  }
  template <class F>
  WEFT_ON_DEVICE void each_inside(const row_groups& g, const row_place& place, F f) const {
    WEFT_UNROLLED for (int c = 0; c < chunks; ++c) if (place.template column<T>(c) < g.width)
        WEFT_UNROLLED for (int k = 0; k < pack_size<T>; ++k) f(c, at[c].at[k]);
  }
};

template <class A, class Block>
WEFT_ON_DEVICE A* group_scratch(Block& block) {
  return block.template shared<A>();
}
/// Over a row's threads. All threads of the block come, also those without a row.
template <reduce Kind, class Block, class A>
WEFT_ON_DEVICE A group_reduce(Block& block, const row_groups& g, A value) {
  value = warp_reduce<Kind>(block, value);
  if (g.warps == 1) return value;
  A* const scratch = group_scratch<A>(block);
  if (block.lane() == 0) scratch[block.warp()] = value;
  block.sync();
  const int first = block.warp() / g.warps * g.warps;
  A total = start_of<Kind, A>();
  for (int w = first; w < first + g.warps; ++w) total = join<Kind>(total, scratch[w]);
  block.sync();  // nobody writes the scratch again before all have read it
  return total;
}
template <class Block, class A>
WEFT_ON_DEVICE A group_sum(Block& block, const row_groups& g, A value) {
  return group_reduce<reduce::sum>(block, g, value);
}

}  // namespace weft::gpu
