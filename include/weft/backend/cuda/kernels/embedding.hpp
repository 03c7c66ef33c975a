// Rows of a table by id and the gradient that goes back into the table, as kernel bodies. Invariant: rows of one id are
// added in the order of the batch.
// Of r ids, d of which differ, and rows of w elements of T, of G in the gradient:
//   embedding_kernel: (r + d) w T + 4 r bytes, 0 FLOPs
//   row_keys_kernel: 12 r bytes, 0 FLOPs
//   embedding_backward_kernel: r w T + 2 d w G + 8 r bytes, r w FLOPs
#pragma once

#include <weft/backend/cuda/kernel.hpp>

namespace weft::gpu {

/// y[row] = table[ids[row] - begin], or zeros for an id outside of [begin, begin + count).
/// ids [rows], table [count, width], y [rows, width]
template <class T>
struct embedding_kernel {
  int64 rows, width;
  const std::int32_t* ids;
  int64 begin, count;
  const T* table;
  T* y;
  bool packed;  // width is a multiple of a pack, and both are aligned for packs

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<pack_size<T>>(block, rows * width, packed, [&]<int N>(int64 i) {
      const int64 id = ids[i / width] - begin;
      pack<T, N> out{};
      if (id >= 0 && id < count) out = block.template load<N>(table + id * width + i % width);
      block.store(y + i, out);
    });
  }
};

/// What rows are sorted by: the id's place in the table, `count` for one outside of it, above the row.
struct row_keys_kernel {
  static constexpr int row_bits = 32;
  int64 rows;
  const std::int32_t* ids;
  int64 begin, count;
  std::uint64_t* keys;  // [rows]

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<1>(block, rows, false, [&]<int>(int64 i) {
      const int64 id = ids[i] - begin, place = id >= 0 && id < count ? id : count;
      keys[i] = static_cast<std::uint64_t>(place) << row_bits | static_cast<std::uint64_t>(i);
    });
  }
};

/// dtable[id] += the sum of dy over the rows of that id, in the order of the batch. A warp takes `columns` of an id.
/// dy [rows, width], dtable [count, width]
template <class T, class G>
struct embedding_backward_kernel {
  using A = accumulate_t<T>;
  int64 rows, width;
  const std::uint64_t* keys;  // sorted by id, the rows of one in order
  int64 count;
  const T* dy;
  G* dtable;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const int64 pieces = (width + warp_size - 1) / warp_size, warps = block.blocks() * block.warps();
    for (int64 task = block.index() * block.warps() + block.warp(); task < rows * pieces; task += warps) {
      const int64 place = task / pieces, column = task % pieces * warp_size + block.lane();
      const auto id_of = [&](std::uint64_t k) { return static_cast<int64>(k >> row_keys_kernel::row_bits); };
      const int64 id = id_of(keys[place]);
      if (id == count || column >= width) continue;
      if (place > 0 && id_of(keys[place - 1]) == id) continue;  // not the first of its rows
      A sum = 0;
      for (int64 p = place; p < rows && id_of(keys[p]) == id;) {
        A run = 0;  // short sums first: the error of a long one grows with its length
        for (const int64 end = p + 64; p < end && p < rows && id_of(keys[p]) == id; ++p)
          run += block.widen(dy[static_cast<int64>(keys[p] & 0xffffffffu) * width + column]);
        sum += run;
      }
      G& to = dtable[id * width + column];
      to = block.template narrow<G>(static_cast<A>(block.widen(to)) + sum);
    }
  }
};

}  // namespace weft::gpu
