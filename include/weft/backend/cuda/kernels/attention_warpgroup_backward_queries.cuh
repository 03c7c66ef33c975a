// Attention's backward for sm_90a: dq. Invariant: as in attention_warpgroup_backward.cuh.
// Of n numbers of queries in r rows, m of keys, each row of which sees k keys, with sums in A:
//   attention_warpgroup_queries_backward_kernel: (3 n + 2 m) T + 3 A r bytes, 6 n k FLOPs
#pragma once

#include <weft/backend/cuda/kernels/attention_first_keys.cuh>
#include <weft/backend/cuda/kernels/attention_tensor_backward.hpp>
#include <weft/backend/cuda/kernels/row_store.cuh>
#include <weft/backend/cuda/kernels/tile_copy.cuh>
#include <weft/backend/cuda/kernels/warpgroup.cuh>

namespace weft::gpu {

/// As attention_queries_backward_kernel; q, k, v and dout by maps in tiles of 128. Compiled for another architecture it
/// has no shared memory of its own.
template <class T, int D, bool Documents = false>
struct attention_warpgroup_queries_backward_kernel {
  static_assert(sizeof(T) == 2 && (D == 64 || D == 128));
  CUtensorMap q, k, v, dout;
  using gradient = attention_tensor_gradient<T, D, Documents>;
  gradient from;
  T* dq;
  bool add_dq;

  static constexpr int groups = 2, threads = (groups + 1) * warpgroup_size, blocks_at_once = 1;
  static constexpr int own = 64, queries = groups * own, keys = 128, stages = 2;
  static constexpr int panel = 128 * tile_row_bytes, tile_bytes = 128 * D * 2;
  static_assert(queries == 128 && keys == 128);
  static constexpr std::size_t shared_bytes() { return tile_swizzle_bytes + (2 + 2 * stages) * tile_bytes; }
  static int64 tiles(const attention_shape& s) { return s.batch * s.heads * ((s.q_len + queries - 1) / queries); }

  template <class Block>
  __device__ void operator()(Block& block) const {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __shared__ meeting at;
    if (block.thread() == 0) {
      at.queries.make(1, groups * 4);
      for (tile_slot& s : at.tiles) s.make(1, groups * 4);
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
    tile_slot queries, tiles[stages];  // a block's queries and dout; keys and values
  };
  __device__ static std::uint32_t keys_at(std::uint32_t room, int stage) {
    return room + static_cast<std::uint32_t>((2 + stage * 2) * tile_bytes);
  }

  // A block's items, and for each the tiles of keys that its queries see.
  template <class Block, class Begin, class See, class End>
  __device__ void walk(Block& block, Begin begin, See see, End end) const {
    const tensor_shape<D, Documents>& s = from.shape;
    turn now;
    for (int items = 0;; ++items) {
      const auto item = [&] {
        return static_cast<int>(block.index()) + block.anew(items) * static_cast<int>(block.blocks());
      };
      if (item() >= s.query_tiles(queries)) break;
      const auto t = s.query_tile_of(item(), queries, 0, 0);
      const int begin_key = s.first_key(t.b, t.begin) / keys * keys;
      const int last = s.end_key(t.begin + queries - 1 < s.q_len ? t.begin + queries - 1 : s.q_len - 1);
      begin(t, items & 1);
      for (int k0 = begin_key; k0 < last; k0 += keys, ++now.n) see(t, k0, now);
      end(s.query_tile_of(item(), queries, 0, 0));
    }
  }

  // The one thread that copies.
  template <class Block>
  __device__ void bring(Block& block, meeting& at, std::uint32_t room) const {
    const auto fetch = [](tile_slot& s, int phase, const CUtensorMap& one, const CUtensorMap& other, int h, int row,
                          int b, std::uint32_t to) {
      s.free.wait(phase ^ 1);
      s.there.arrive_and_expect(2 * tile_bytes);
      copy_panels<D / 64>(one, h, row, b, 128, to, s.there);
      copy_panels<D / 64>(other, h, row, b, 128, to + tile_bytes, s.there);
    };
    walk(
        block, [&](const auto& t, int phase) { fetch(at.queries, phase, q, dout, t.h, t.begin, t.b, room); },
        [&](const auto& t, int k0, turn now) {
          fetch(at.tiles[now.stage()], now.phase(), k, v, t.h / from.shape.share, k0, t.b, keys_at(room, now.stage()));
        },
        [](const auto&) {});
  }

  using products = tensor_sums<1, keys / 8>;  // [queries, keys]

  // A warpgroup that computes: while the tensor cores multiply dout with values it makes weights.
  template <class Block>
  __device__ void use(Block& block, meeting& at, std::uint32_t room) const {
    const tensor_shape<D, Documents>& shape = from.shape;
    // Made anew wherever they are used: registers hold the sum and two products, and little more.
    const auto warp = [&] { return block.anew(block.warp()) - warpgroup_size / warp_size; };
    const auto group = [&] { return warp() * warp_size / warpgroup_size; };
    array_of<typename gradient::kept, 2> kept;  // of this lane's rows
    first firsts;
    tensor_sums<1, D / 8> sum;
    walk(
        block,
        [&](const auto& t, int phase) {
          sum = {};
          WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
            const int query = t.begin + warp() * 16 + block.lane() / 4 + i * 8;
            const int row = shape.row_at(t.b, t.h, query < shape.q_len ? query : shape.q_len - 1);
            kept[i] = from.kept_of(from.sums[row], from.sums[shape.all_rows() + row], from.delta[row]);
          }
          firsts = first(shape, t.b, t.begin + group() * own, t.begin + warp() * 16, block.lane());
          at.queries.there.wait(phase);
        },
        [&](const auto& t, int k0, turn now) {
          tile_slot& s = at.tiles[now.stage()];
          s.there.wait(now.phase());
          if (!firsts.none(shape, t.b, t.begin + group() * own, own, k0, keys)) {
            const std::uint64_t my_queries =
                matrix_in_tile(room + static_cast<std::uint32_t>(group() * own * tile_row_bytes), panel);
            const std::uint64_t of_keys = matrix_in_tile(keys_at(room, now.stage()), panel);
            products p, ds;
            begin_products();
            multiply_tiles<T, D>(p, my_queries, panel, of_keys, panel);
            end_products();
            multiply_tiles<T, D>(ds, further(my_queries, tile_bytes), panel, further(of_keys, tile_bytes), panel);
            end_products();
            wait_for_products<1>();
            pin(p);
            each(block, firsts, t.b, t.begin + warp() * 16, k0, [&](int n, int j, auto of) {
              float& x = p.at[0][n][j];
              const float weight = from.weight(block, kept[j / 2].level, x);
              x = of.seen ? weight : 0;
            });
            wait_for_products<0>();
            pin(ds);
            each(block, firsts, t.b, t.begin + warp() * 16, k0, [&](int n, int j, auto of) {
              float& x = ds.at[0][n][j];
              x = from.moved(kept[j / 2].delta, of.seen, of.only, p.at[0][n][j], x);
            });
            auto moves = tensor_tile<T, D>::rounded(block, ds);
            pin(moves), pin(sum);
            begin_products();
            add_product_of_tile<T>(sum, moves, of_keys);
            end_products();
            wait_for_products<0>();
            pin(moves), pin(sum);
          }
          s.release(block);
        },
        [&](const auto& t) {
          at.queries.release(block);
          const int mine = t.begin + warp() * 16;
          store_rows<T>(
              block, sum, [&](int, int) { return shape.scale; }, shape.q_len - mine,
              dq + shape.query_at(t.b, t.h, mine), shape.q_apart(), add_dq);
        });
  }

  // f(n, j, sight) for this lane's part of products, of 16 queries from `query` on with a tile from k0 on.
  template <class Block, class F>
  __device__ void each(Block& block, const first& firsts, int b, int query, int k0, F f) const {
    using sight = typename gradient::sight;
    const tensor_shape<D, Documents>& shape = from.shape;
    const auto go = [&]<bool All>() {
      array_of<int, 2> behind, seen;  // the first key that this lane's queries see; so many they do
      if constexpr (!All) {
        const int lane = block.anew(block.lane());
        WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
          const int mine = query + lane / 4 + i * 8, begin = firsts.of(shape, b, i, mine);
          behind[i] = k0 + lane % 4 * 2 - begin;
          seen[i] = mine < shape.q_len ? shape.end_key(mine) - begin : 0;
        }
      }
      WEFT_UNROLLED for (int n = 0; n < keys / 8; ++n) WEFT_UNROLLED for (int j = 0; j < 4; ++j) {
        sight sees{true, false};
        if constexpr (!All) {
          const int at = behind[j / 2] + n * 8 + j % 2;
          sees = {at >= 0 && at < seen[j / 2], seen[j / 2] == 1};
        }
        f(n, j, sees);
      }
    };
    if (firsts.all(shape, b, query, k0, keys))
      go.template operator()<true>();
    else
      go.template operator()<false>();
  }
};

}  // namespace weft::gpu
