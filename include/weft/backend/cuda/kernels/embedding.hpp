// Rows of a table by id and the gradient that goes back into the table, as kernel bodies. Invariant: rows of one id are
// added in the order of the batch: ids are sorted with their rows behind them, so that no two keys are equal.
#pragma once

#include <weft/backend/cuda/kernel.hpp>

namespace weft::cuda {

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

/// What rows are sorted by: the id's place in the table, or behind all others for one outside of it; then the row.
struct row_keys_kernel {
  static constexpr std::uint64_t nobody = ~std::uint64_t{0};
  int64 rows, room;  // room: the next power of two
  const std::int32_t* ids;
  int64 begin, count;
  std::uint64_t* keys;  // [room]

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<1>(block, room, false, [&]<int>(int64 i) {
      std::uint64_t key = nobody;
      if (i < rows) {
        const int64 id = ids[i] - begin;
        if (id >= 0 && id < count) key = static_cast<std::uint64_t>(id) << 32 | static_cast<std::uint64_t>(i);
      }
      keys[i] = key;
    });
  }
};

/// One step of a bitonic sort (Batcher 1968): pairs `distance` apart are put in order, up or down by the bit `run` of
/// their place.
struct sort_step_kernel {
  int64 room, run, distance;
  std::uint64_t* keys;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<1>(block, room / 2, false, [&]<int>(int64 pair) {
      const int64 low = pair / distance * 2 * distance + pair % distance, high = low + distance;
      const std::uint64_t a = keys[low], b = keys[high];
      if ((a > b) == ((low & run) == 0)) keys[low] = b, keys[high] = a;
    });
  }
};
/// All steps of one run whose pairs lie within `tile` neighbours, or all runs up to that: in shared memory, of `tile`
/// keys. A block takes a tile.
struct sort_tile_kernel {
  int64 room, first_run, last_run, tile;
  std::uint64_t* keys;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    std::uint64_t* const own = block.template shared<std::uint64_t>();
    for (int64 begin = block.index() * tile; begin < room; begin += block.blocks() * tile) {
      for (int64 i = block.thread(); i < tile; i += block.threads()) own[i] = keys[begin + i];
      block.sync();
      for (int64 run = first_run; run <= last_run; run *= 2)
        for (int64 distance = (run < tile ? run : tile) / 2; distance > 0; distance /= 2) {
          for (int64 pair = block.thread(); pair < tile / 2; pair += block.threads()) {
            const int64 low = pair / distance * 2 * distance + pair % distance, high = low + distance;
            const std::uint64_t a = own[low], b = own[high];
            if ((a > b) == (((begin + low) & run) == 0)) own[low] = b, own[high] = a;
          }
          block.sync();
        }
      for (int64 i = block.thread(); i < tile; i += block.threads()) keys[begin + i] = own[i];
      block.sync();
    }
  }
};

/// dtable[id] += the sum of dy over the rows of that id, in the order of the batch. A warp takes `columns` of an id.
/// dy [rows, width], dtable [count, width]
template <class T, class G>
struct embedding_backward_kernel {
  using A = accumulate_t<T>;
  int64 rows, width;
  const std::uint64_t* keys;  // sorted
  const T* dy;
  G* dtable;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const int64 pieces = (width + warp_size - 1) / warp_size, warps = block.blocks() * block.warps();
    for (int64 task = block.index() * block.warps() + block.warp(); task < rows * pieces; task += warps) {
      const int64 place = task / pieces, column = task % pieces * warp_size + block.lane();
      const std::uint64_t key = keys[place];
      if (key == row_keys_kernel::nobody || column >= width) continue;
      const std::uint64_t id = key >> 32;
      if (place > 0 && keys[place - 1] >> 32 == id) continue;  // not the first of its rows
      A sum = 0;
      for (int64 p = place; p < rows && keys[p] >> 32 == id;) {
        A run = 0;  // short sums first: the error of a long one grows with its length
        for (const int64 end = p + 64; p < end && p < rows && keys[p] >> 32 == id; ++p)
          run += block.widen(dy[static_cast<int64>(keys[p] & 0xffffffffu) * width + column]);
        sum += run;
      }
      G& to = dtable[static_cast<int64>(id) * width + column];
      to = block.template narrow<G>(static_cast<A>(block.widen(to)) + sum);
    }
  }
};

}  // namespace weft::cuda
