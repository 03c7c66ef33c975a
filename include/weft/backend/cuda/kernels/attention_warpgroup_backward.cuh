// Attention's backward for sm_90a, for what attention_warpgroup.cuh takes, and as that has the forward: tiles come by
// TMA, products are wgmma's. Here are dk and dv; attention_warpgroup_backward_queries.cuh has dq. One kernel for all
// would have 10 n k FLOPs in place of their 14, but its blocks would have to add to each other's dq in an order.
// Invariant: as in attention_tensor_backward.hpp; what is rounded never leaves the registers.
// Of n numbers of queries in r rows, m of keys, each row of which sees k keys, with sums in A:
//   attention_warpgroup_keys_backward_kernel: (2 n + 4 m) T + 3 A r bytes, 8 n k FLOPs
#pragma once

#include <weft/backend/cuda/kernels/attention_kept_queries.cuh>
#include <weft/backend/cuda/kernels/attention_tensor_backward.hpp>
#include <weft/backend/cuda/kernels/row_store.cuh>
#include <weft/backend/cuda/kernels/tile_copy.cuh>
#include <weft/backend/cuda/kernels/warpgroup.cuh>

namespace weft::gpu {

/// As attention_keys_backward_kernel; k and v by maps in tiles of 128, q and dout in tiles of 64. Compiled for another
/// architecture it has no shared memory of its own.
template <class T, int D, bool Documents = false>
struct attention_warpgroup_keys_backward_kernel {
  static_assert(sizeof(T) == 2 && (D == 64 || D == 128));
  CUtensorMap q, k, v, dout;
  using gradient = attention_tensor_gradient<T, D, Documents>;
  gradient from;
  T* dk;
  bool add_dk;
  T* dv;
  bool add_dv;

  static constexpr int groups = 2, threads = (groups + 1) * warpgroup_size, blocks_at_once = 1;
  static constexpr int own = 64, keys = groups * own, queries = 64, stages = 4;
  static constexpr int key_panel = keys * tile_row_bytes, query_panel = queries * tile_row_bytes;
  static constexpr int key_bytes = keys * D * 2, query_bytes = queries * D * 2;
  static constexpr std::size_t shared_bytes() { return tile_swizzle_bytes + 2 * key_bytes + 2 * stages * query_bytes; }
  static int64 tiles(const attention_shape& s) { return s.batch * s.kv_heads * ((s.kv_len + keys - 1) / keys); }

  template <class Block>
  __device__ void operator()(Block& block) const {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __shared__ meeting at;
    if (block.thread() == 0) {
      at.keys.make(1, groups * 4);
      for (tile_slot& s : at.tiles) s.make(2, groups * 4);
      phase_barrier::show_to_copies();
    }
    block.sync();
    const std::uint32_t first = in_shared(block.template shared<char>());
    const std::uint32_t room = (first + tile_swizzle_bytes - 1) / tile_swizzle_bytes * tile_swizzle_bytes;
    if (block.thread() < warpgroup_size) {
      keep_registers<24>();
      if (block.warp() == 0 && elected()) bring(block, at, room);
      if (block.warp() == 1) bring_kept(block, at);
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
  struct meeting {
    tile_slot keys, tiles[stages];  // a block's keys and values; queries and dout, and what is kept of the queries:
    kept_queries<T, D, Documents, queries> kept[stages];
    int end;  // with documents: of the range of queries that see the keys
  };
  __device__ static std::uint32_t queries_at(std::uint32_t room, int stage) {
    return room + static_cast<std::uint32_t>(2 * key_bytes + stage * 2 * query_bytes);
  }

  // The tiles of queries that see some of a tile of keys.
  struct range {
    int begin, end;
  };
  __device__ range queries_of(int b, int key) const { return {begin_of(key), end_of(b, key)}; }
  __device__ int begin_of(int key) const { return from.shape.first_query(key) / queries * queries; }
  // With documents it is searched for in memory, once for each item.
  __device__ int end_of(int b, int key) const {
    const tensor_shape<D, Documents>& s = from.shape;
    return s.end_query(b, key + keys < s.kv_len ? key + keys : s.kv_len);
  }
  // A block's items, and for each the tiles of queries that see its keys, of every head that reads them. What is easily
  // made anew takes no register from one tile to the next; with documents known() is the range's end.
  template <class Block, class Known, class Begin, class See, class End>
  __device__ void walk(Block& block, Known known, Begin begin, See see, End end) const {
    const tensor_shape<D, Documents>& s = from.shape;
    const auto of_keys = [&](int b, int key) {
      if constexpr (Documents)
        return range{begin_of(key), known()};
      else
        return queries_of(b, key);
    };
    turn now;
    for (int items = 0;; ++items) {
      const auto item = [&] {
        return static_cast<int>(block.index()) + block.anew(items) * static_cast<int>(block.blocks());
      };
      if (item() >= s.key_tiles(keys)) break;
      const auto t = s.key_tile_of(item(), keys, 0, 0);
      begin(t, items & 1);
      const range of = of_keys(t.b, t.begin);
      int left = of.begin < of.end ? (of.end - of.begin + queries - 1) / queries * s.share : 0;
      for (int h = t.h * s.share, q0 = of.begin; left > 0; --left, ++now.n) {
        see(t, h, q0, now);
        q0 += queries;
        const range again = of_keys(t.b, block.anew(t.begin));
        if (q0 >= again.end) q0 = again.begin, ++h;
      }
      end(s.key_tile_of(item(), keys, 0, 0));
    }
  }

  // The one thread that copies.
  template <class Block>
  __device__ void bring(Block& block, meeting& at, std::uint32_t room) const {
    constexpr int panels = D / 64;
    int last = 0;
    walk(
        block, [&] { return last; },
        [&](const auto& t, int phase) {
          if constexpr (Documents) last = end_of(t.b, t.begin);
          at.keys.free.wait(phase ^ 1);
          if constexpr (Documents) at.end = last;
          at.keys.there.arrive_and_expect(2 * key_bytes);
          copy_panels<panels>(k, t.h, t.begin, t.b, keys, room, at.keys.there);
          copy_panels<panels>(v, t.h, t.begin, t.b, keys, room + key_bytes, at.keys.there);
        },
        [&](const auto& t, int h, int q0, turn now) {
          tile_slot& s = at.tiles[now.stage()];
          const std::uint32_t to = queries_at(room, now.stage());
          s.free.wait(now.phase() ^ 1);
          s.there.arrive_and_expect(2 * query_bytes);
          copy_panels<panels>(q, h, q0, t.b, queries, to, s.there);
          copy_panels<panels>(dout, h, q0, t.b, queries, to + query_bytes, s.there);
        },
        [](const auto&) {});
  }
  // The warp that brings what is kept of queries.
  template <class Block>
  __device__ void bring_kept(Block& block, meeting& at) const {
    int last = 0;
    walk(
        block, [&] { return last; },
        [&](const auto& t, int) {
          if constexpr (Documents) last = end_of(t.b, t.begin);
        },
        [&](const auto& t, int h, int q0, turn now) {
          tile_slot& s = at.tiles[now.stage()];
          s.free.wait(now.phase() ^ 1);
          at.kept[now.stage()].keep(block, from, t.b, h, q0);
          block.sync_warp();
          if (block.lane() == 0) s.there.arrive();
        },
        [](const auto&) {});
  }

  using products = tensor_sums<1, queries / 8>;  // [keys, queries]
  using sums = tensor_sums<1, D / 8>;

  // A warpgroup that computes: while the tensor cores multiply dout with values it makes weights, and while they
  // multiply those with dout, what the scores move.
  template <class Block>
  __device__ void use(Block& block, meeting& at, std::uint32_t room) const {
    const tensor_shape<D, Documents>& shape = from.shape;
    // Made anew wherever they are used: registers hold the sums and two products, and little more.
    const auto warp = [&] { return block.anew(block.warp()) - warpgroup_size / warp_size; };
    const auto group = [&] { return warp() * warp_size / warpgroup_size; };
    sums sum_k, sum_v;
    walk(
        block, [&] { return at.end; },
        [&](const auto&, int phase) {
          sum_k = {}, sum_v = {};
          at.keys.there.wait(phase);
        },
        [&](const auto& t, int h, int q0, turn now) {
          const int i = now.stage();
          at.tiles[i].there.wait(now.phase());
          const auto& kept = at.kept[i];
          if (!kept.sees_none(shape, t.b, q0, t.begin + group() * own, own)) {
            const std::uint64_t my_keys =
                matrix_in_tile(room + static_cast<std::uint32_t>(group() * own * tile_row_bytes), key_panel);
            const std::uint64_t of_queries = matrix_in_tile(queries_at(room, i), query_panel);
            const std::uint64_t douts = further(of_queries, query_bytes);
            products p, ds;
            begin_products();
            multiply_tiles<T, D>(p, my_keys, key_panel, of_queries, query_panel);
            end_products();
            multiply_tiles<T, D>(ds, further(my_keys, key_bytes), key_panel, douts, query_panel);
            end_products();
            wait_for_products<1>();
            pin(p);
            kept.each(block, shape, kept.levels, t.b, q0, t.begin + warp() * 16,
                      [&](int n, int j, float level, auto of) {
                        float& x = p.at[0][n][j];
                        const float weight = from.weight(block, level, x);
                        x = of.seen ? weight : 0;
                      });
            auto weights = tensor_tile<T, D>::rounded(block, p);
            pin(weights), pin(sum_v);
            begin_products();
            add_product_of_tile<T>(sum_v, weights, douts);
            end_products();
            wait_for_products<1>();
            pin(ds);
            kept.each(block, shape, kept.deltas, t.b, q0, t.begin + warp() * 16,
                      [&](int n, int j, float delta, auto of) {
                        float& x = ds.at[0][n][j];
                        x = from.moved(delta, of.seen, of.only, p.at[0][n][j], x);
                      });
            auto moves = tensor_tile<T, D>::rounded(block, ds);
            pin(moves), pin(sum_k);
            begin_products();
            add_product_of_tile<T>(sum_k, moves, of_queries);
            end_products();
            wait_for_products<0>();
            pin(weights), pin(sum_v), pin(moves), pin(sum_k);
          }
          at.tiles[i].release(block);
        },
        [&](const auto& t) {
          at.keys.release(block);
          const int mine = t.begin + warp() * 16, n = shape.kv_len - mine;
          const int64 to = shape.key_at(t.b, t.h, mine);
          store_rows<T>(
              block, sum_k, [&](int, int) { return shape.scale; }, n, dk + to, shape.kv_apart(), add_dk);
          store_rows<T>(
              block, sum_v, [](int, int) { return 1.0f; }, n, dv + to, shape.kv_apart(), add_dv);
        });
  }
};

}  // namespace weft::gpu
