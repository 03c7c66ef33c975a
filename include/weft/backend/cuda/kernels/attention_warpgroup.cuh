// Attention's forward for sm_90a, in which a warp that only copies feeds two warpgroups that only compute (Shah et al.
// 2024), for bf16 and fp16 and heads of 64 or 128 numbers. Tiles come by TMA, products are wgmma's.
// Whole tiles of 128 x 128 are multiplied, and k and v are read once for every 128 queries, which the second level
// cache takes. Invariant: as in attention_tensor.hpp, with tiles of 128 keys.
// Of n numbers of queries in r rows, m of keys, each row of which sees k keys, with sums in A:
//   attention_warpgroup_kernel: (2 n + 2 m) T + 2 A r bytes, 4 n k FLOPs
#pragma once

#include <weft/backend/cuda/kernels/attention_first_keys.cuh>
#include <weft/backend/cuda/kernels/attention_tensor.hpp>
#include <weft/backend/cuda/kernels/row_store.cuh>
#include <weft/backend/cuda/kernels/tile_copy.cuh>
#include <weft/backend/cuda/kernels/warpgroup.cuh>

namespace weft::gpu {

/// As attention_kernel; q, k and v by maps of [batch, length, heads, D] (map_tiles) in tiles of 128. Compiled for
/// another architecture it has no shared memory of its own: that is how a program knows.
template <class T, int D, bool Documents = false>
struct attention_warpgroup_kernel {
  static_assert(sizeof(T) == 2 && (D == 64 || D == 128));
  CUtensorMap q, k, v;
  tensor_shape<D, Documents> shape;
  T* out;
  float* sums;

  static constexpr int groups = 2, threads = (groups + 1) * warpgroup_size, blocks_at_once = 1;
  static constexpr int own = 64, queries = groups * own, keys = 128, stages = 2;
  static constexpr int panels = D / 64;  // a tile's columns, 64 at a time
  static constexpr int query_bytes = queries * D * 2, key_bytes = keys * D * 2;
  static constexpr int panel_bytes = 128 * tile_row_bytes;
  static_assert(queries == 128 && keys == 128);
  static constexpr std::size_t shared_bytes() { return tile_swizzle_bytes + query_bytes + 2 * stages * key_bytes; }
  static int64 tiles(const attention_shape& s) { return s.batch * s.heads * ((s.q_len + queries - 1) / queries); }

  template <class Block>
  __device__ void operator()(Block& block) const {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __shared__ meeting at;
    if (block.thread() == 0) {
      at.queries.make(1, groups * 4);
      for (int i = 0; i < stages; ++i) at.keys[i].make(1, groups * 4), at.values[i].make(1, groups * 4);
      phase_barrier::show_to_copies();
    }
    block.sync();
    const std::uint32_t first = in_shared(block.template shared<char>());
    const std::uint32_t room = (first + tile_swizzle_bytes - 1) / tile_swizzle_bytes * tile_swizzle_bytes;
    if (block.thread() < warpgroup_size) {
      keep_registers<24>();
      if (block.warp() == 0 && elected()) bring(block, at, room);
    } else {
      take_registers<240>();
      use(block, at, room);
    }
#else
    __trap();  // started by a unit that was compiled for sm_90a, and linked with one that wasn't
#endif
  }

 private:
  using turn = tile_turn<stages>;
  using first = first_keys<D, Documents>;
  struct meeting {
    tile_slot queries, keys[stages], values[stages];
  };
  __device__ static std::uint32_t keys_at(std::uint32_t room, int stage) {
    return room + static_cast<std::uint32_t>(query_bytes + stage * 2 * key_bytes);
  }
  __device__ static std::uint32_t values_at(std::uint32_t room, int stage) { return keys_at(room, stage) + key_bytes; }
  // Of an item: the first tile's first key, and the end of the last.
  struct range {
    int begin, end;
  };
  template <class Tile>
  __device__ range keys_of(const Tile& t) const {
    const int last = t.begin + queries - 1 < shape.q_len ? t.begin + queries - 1 : shape.q_len - 1;
    return {shape.first_key(t.b, t.begin) / keys * keys, shape.end_key(last)};
  }

  // The one thread that copies.
  template <class Block>
  __device__ void bring(Block& block, meeting& at, std::uint32_t room) const {
    turn now;
    int items = 0;
    const auto fetch = [](tile_slot& s, int phase, const CUtensorMap& from, int h, int row, int b, std::uint32_t to) {
      s.free.wait(phase ^ 1);
      s.there.arrive_and_expect(panels * panel_bytes);
      copy_panels<panels>(from, h, row, b, panel_bytes / tile_row_bytes, to, s.there);
    };
    for (int item = static_cast<int>(block.index()); item < shape.query_tiles(queries);
         item += static_cast<int>(block.blocks()), ++items) {
      const auto t = shape.query_tile_of(item, queries, 0, 0);
      const int h = t.h / shape.share;
      fetch(at.queries, items & 1, q, t.h, t.begin, t.b, room);
      const range of = keys_of(t);
      for (int k0 = of.begin; k0 < of.end; k0 += keys, ++now.n) {
        const int i = now.stage();
        fetch(at.keys[i], now.phase(), k, h, k0, t.b, keys_at(room, i));
        fetch(at.values[i], now.phase(), v, h, k0, t.b, values_at(room, i));
      }
    }
  }

  using scores = tensor_sums<1, keys / 8>;
  struct progress {
    tensor_sums<1, D / 8> total;  // of p v
    array_of<float, 2> high;      // the largest q k of each of this lane's rows
    array_of<float, 2> sum = {};  // of exp(score - high), this lane's part
    __device__ progress() { high[0] = high[1] = -__builtin_inff(); }
  };

  // A warpgroup that computes: while the tensor cores multiply the weights of one tile with its values, it makes those
  // of the next.
  template <class Block>
  __device__ void use(Block& block, meeting& at, std::uint32_t room) const {
    const int group = block.warp() / 4 - 1, warp = block.warp() % 4;
    const std::uint64_t rows =
        matrix_in_tile(room + static_cast<std::uint32_t>(group * own * tile_row_bytes), panel_bytes);
    turn now;
    int items = 0;
    const auto release = [&](tile_slot& s) {
      if (block.lane() == 0) s.free.arrive();
    };
    const auto begin_scores = [&](scores& p) {
      at.keys[now.stage()].there.wait(now.phase());
      const std::uint64_t others = matrix_in_tile(keys_at(room, now.stage()), panel_bytes);
      begin_products();
      multiply_tiles<T, D>(p, rows, panel_bytes, others, panel_bytes);
      end_products();
    };
    const auto begin_values = [&](turn of, tensor_rows<1, keys / 16>& weights, progress& so_far) {
      at.values[of.stage()].there.wait(of.phase());
      const std::uint64_t values = matrix_in_tile(values_at(room, of.stage()), panel_bytes);
      pin(weights), pin(so_far.total);
      begin_products();  // behind the loop that waits, or ptxas puts all products one behind another
      add_product_of_tile<T>(so_far.total, weights, values);
      end_products();
    };
    for (int item = static_cast<int>(block.index()); item < shape.query_tiles(queries);
         item += static_cast<int>(block.blocks()), ++items) {
      const auto t = shape.query_tile_of(item, queries, 0, 0);
      const int of_group = t.begin + group * own, mine = of_group + warp * 16;
      const range of = keys_of(t);
      const first firsts(shape, t.b, of_group, mine, block.lane());
      int k0 = of.begin;
      const auto go_on = [&] { k0 += keys, ++now.n; };
      const auto sees = [&] { return k0 < of.end && !firsts.none(shape, t.b, of_group, own, k0, keys); };
      const auto pass = [&] {  // what the other warpgroup alone sees
        tile_slot &of_keys = at.keys[now.stage()], &of_values = at.values[now.stage()];
        of_keys.there.wait(now.phase()), of_values.there.wait(now.phase());
        block.sync_warp();  // a lane that is still asking whether they are there would ask of a later phase
        release(of_keys), release(of_values);
        go_on();
      };
      progress so_far;
      at.queries.there.wait(items & 1);
      while (k0 < of.end && !sees()) pass();
      if (k0 < of.end) {
        scores p;
        begin_scores(p);
        wait_for_products<0>();
        pin(p);
        release(at.keys[now.stage()]);
        weigh(block, p, firsts, t.b, mine, k0, so_far);
        auto weights = tensor_tile<T, D>::rounded(block, p);
        for (go_on(); sees(); go_on()) {
          const turn before{now.n - 1};
          begin_scores(p);
          begin_values(before, weights, so_far);
          wait_for_products<1>();
          pin(p);
          release(at.keys[now.stage()]);
          const auto kept = weigh(block, p, firsts, t.b, mine, k0, so_far);
          wait_for_products<0>();
          pin(weights), pin(so_far.total);
          release(at.values[before.stage()]);
          WEFT_UNROLLED for (int n = 0; n < D / 8; ++n) WEFT_UNROLLED for (int i = 0; i < 4; ++i)
              so_far.total.at[0][n][i] *= kept.at[i / 2];
          weights = tensor_tile<T, D>::rounded(block, p);
        }
        const turn last{now.n - 1};
        begin_values(last, weights, so_far);
        wait_for_products<0>();
        pin(weights), pin(so_far.total);
        release(at.values[last.stage()]);
        while (k0 < of.end) pass();
      }
      release(at.queries);
      store(block, t.b, t.h, mine, so_far);
    }
  }

  // p, products of queries and a tile of keys, become weights; what is left, at their level, of those before.
  template <class Block>
  __device__ pack<float, 2> weigh(Block& block, scores& p, const first& firsts, int b, int mine, int k0,
                                  progress& so_far) const {
    if (!firsts.all(shape, b, mine, k0, keys)) WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
        const int of = mine + block.lane() / 4 + i * 8;
        const int begin = firsts.of(shape, b, i, of) - k0, end = shape.end_key(of) - k0;
        WEFT_UNROLLED for (int n = 0; n < keys / 8; ++n) WEFT_UNROLLED for (int j = 0; j < 2; ++j) {
          const int key = n * 8 + block.lane() % 4 * 2 + j;
          if (key < begin || key >= end) p.at[0][n][2 * i + j] = -__builtin_inff();
        }
      }
    const float scale = shape.scale * log2_e;
    pack<float, 2> kept;
    WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
      const float before = so_far.high[i];
      float high = before;
      WEFT_UNROLLED for (int n = 0; n < keys / 8; ++n) WEFT_UNROLLED for (int j = 0; j < 2; ++j) high =
          p.at[0][n][2 * i + j] > high ? p.at[0][n][2 * i + j] : high;
      for (int mask = 1; mask < 4; mask *= 2) {
        const float other = block.shuffle_xor(high, mask);
        high = other > high ? other : high;
      }
      const float level = high > -__builtin_inff() ? high * scale : 0;
      kept.at[i] = block.fast_exp2(block.fma(before, scale, -level));
      float added = 0;
      WEFT_UNROLLED for (int n = 0; n < keys / 8; ++n) WEFT_UNROLLED for (int j = 0; j < 2; ++j) {
        float& x = p.at[0][n][2 * i + j];
        x = block.fast_exp2(block.fma(x, scale, -level));
        added += x;
      }
      so_far.high[i] = high;
      so_far.sum[i] = so_far.sum[i] * kept.at[i] + added;
    }
    return kept;
  }

  template <class Block>
  __device__ void store(Block& block, int b, int h, int mine, const progress& so_far) const {
    array_of<float, 2> share;
    WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
      float sum = so_far.sum[i];
      for (int mask = 1; mask < 4; mask *= 2) sum += block.shuffle_xor(sum, mask);
      share[i] = sum == 0 ? 0 : 1 / sum;
      const int row = mine + block.lane() / 4 + i * 8;
      if (row < shape.q_len && block.lane() % 4 == 0) {
        float* const top = sums + shape.row_at(b, h, row);
        *top = so_far.high[i] * shape.scale;
        top[shape.all_rows()] = sum == 0 ? 0 : block.log(sum);
      }
    }
    store_rows<T>(
        block, so_far.total, [&](int, int i) { return share[i]; }, shape.q_len - mine, out + shape.query_at(b, h, mine),
        shape.q_apart(), false);
  }
};

}  // namespace weft::gpu
