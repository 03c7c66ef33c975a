// Tiles of 16-bit numbers for the tensor cores: copied into shared memory ahead of their use, and multiplied by a warp
// with 16 R rows of its own, sums in float. Invariant: a warp's numbers depend on its rows alone, not on where they lie
// in a block, so the bits are the same for every number of threads and blocks.
#pragma once

#include <weft/backend/cuda/kernel.hpp>

namespace weft::gpu {

/// [16 R, 8 N] sums of a warp: at[r][n] are rows from 16 r and columns from 8 n on, as block.mma has them. A lane's are
/// in two rows, g and g + 8, at columns 8 n + 2 t and the next: at[r][n][2 i + j] is column j of row i of those.
template <int R, int N>
struct tensor_sums {
  array_of<array_of<array_of<float, 4>, N>, R> at = {};
};

/// [16 R, 16 K] numbers of a warp.
template <int R, int K>
struct tensor_rows {
  array_of<array_of<fragment, K>, R> at;
};

/// Rows of D numbers of T, in shared memory `stride` apart, so that eight neighbouring rows lie in different banks.
template <class T, int D>
struct tensor_tile {
  static_assert(sizeof(T) == 2 && D % 16 == 0);
  static constexpr int stride = D + 8, depth = D / 16;

  /// Begins to copy `rows` rows of each array, `apart` from each other, of which `n` are there, from `first` on; zeros
  /// for the others. One array's rows come behind the other's.
  template <class Block, class... From>
  static WEFT_ON_DEVICE void fetch(Block& block, int rows, int64 n, int64 first, int64 apart, T* to,
                                   const From*... from) {
    constexpr int lanes = lanes_of_row(D / 8);  // a block's threads take whole rows at a time
    const int thread = block.anew(block.thread()), at_once = block.anew(block.threads()) / lanes;
    int row = row_of<lanes>(thread);
    int64 at = first + row * apart + thread % lanes * 8;
    to += row * stride + thread % lanes * 8;
    for (; row < rows; row += at_once, at += at_once * apart, to += at_once * stride)
      WEFT_UNROLLED for (int i = 0; i < D; i += lanes * 8) {
        T* tile = to + i;
        ((block.template copy_later<8>(tile, from + (row < n ? at + i : 0), row < n), tile += rows * stride), ...);
      }
  }
  /// Columns 16 k ... 16 k + 15 of 16 rows in shared memory.
  template <class Block>
  static WEFT_ON_DEVICE fragment columns_of(Block& block, const T* x, int k) {
    const int lane = lane_of(block);
    return block.template load_matrices<false>(x + lane % 16 * stride + lane / 16 * 8 + k * 16);
  }
  /// The same of x^T: rows 16 k ... 16 k + 15 of 16 columns, from x on.
  template <class Block>
  static WEFT_ON_DEVICE fragment rows_of(Block& block, const T* x, int k) {
    const int lane = lane_of(block);
    return block.template load_matrices<true>(x + (k * 16 + lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
  }

  /// c = a x^T: the products of 16 R rows, whose part (r, k) is the fragment a(r, k), and 8 N rows of x.
  template <int R, int N, class Block, class F>
  static WEFT_ON_DEVICE tensor_sums<R, N> times_rows(Block& block, F a, const T* x) {
    tensor_sums<R, N> c;
    const int lane = lane_of(block);
    x += (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8;
    WEFT_UNROLLED for (int k = 0; k < depth; ++k) {
      array_of<fragment, R> left;
      WEFT_UNROLLED for (int r = 0; r < R; ++r) left[r] = a(r, k);
      WEFT_UNROLLED for (int n = 0; n < N; n += 2) {
        const fragment b = block.template load_matrices<false>(x + n * 8 * stride + k * 16);
        WEFT_UNROLLED for (int r = 0; r < R; ++r) {
          block.template mma<T>(c.at[r][n], left[r], b.at[0], b.at[1]);
          block.template mma<T>(c.at[r][n + 1], left[r], b.at[2], b.at[3]);
        }
      }
    }
    return c;
  }
  /// c += p x, where p is [16 R, 16 K], given as above, and of x's 16 K rows the 8 N columns from x on take part.
  template <int K, int R, int N, class Block, class F>
  static WEFT_ON_DEVICE void add_product(Block& block, F p, const T* x, tensor_sums<R, N>& c) {
    const int lane = lane_of(block);
    x += lane % 16 * stride + lane / 16 * 8;
    WEFT_UNROLLED for (int k = 0; k < K; ++k) {
      array_of<fragment, R> left;
      WEFT_UNROLLED for (int r = 0; r < R; ++r) left[r] = p(r, k);
      WEFT_UNROLLED for (int n = 0; n < N; n += 2) {
        const fragment b = block.template load_matrices<true>(x + k * 16 * stride + n * 8);
        WEFT_UNROLLED for (int r = 0; r < R; ++r) {
          block.template mma<T>(c.at[r][n], left[r], b.at[0], b.at[1]);
          block.template mma<T>(c.at[r][n + 1], left[r], b.at[2], b.at[3]);
        }
      }
    }
  }
  /// Sums as the rows of another product, rounded to T: what a lane has of them is what it needs.
  template <int R, int N, class Block>
  static WEFT_ON_DEVICE tensor_rows<R, N / 2> rounded(const Block& block, const tensor_sums<R, N>& c) {
    tensor_rows<R, N / 2> out;
    WEFT_UNROLLED for (int r = 0; r < R; ++r) WEFT_UNROLLED for (int k = 0; k < N / 2; ++k)
        WEFT_UNROLLED for (int i = 0; i < 4; ++i) {
      const auto& from = c.at[r][2 * k + i / 2];
      out.at[r][k].at[i] = block.template narrow_pair<T>(from[i % 2 * 2], from[i % 2 * 2 + 1]);
    }
    return out;
  }
  /// Puts such rows into shared memory, from `to` on.
  template <int R, int K, class Block>
  static WEFT_ON_DEVICE void keep(Block& block, const tensor_rows<R, K>& p, T* to) {
    const int lane = lane_of(block);
    to += lane / 4 * stride + lane % 4 * 2;
    WEFT_UNROLLED for (int r = 0; r < R; ++r) WEFT_UNROLLED for (int k = 0; k < K; ++k)
        WEFT_UNROLLED for (int i = 0; i < 4; ++i)
            block.store(as_words(to + (r * 16 + i % 2 * 8) * stride + k * 16 + i / 2 * 8),
                        pack<std::uint32_t, 1>{{p.at[r][k].at[i]}});
  }
  /// to (+)= c * factor(r, i) of 16 R rows, of which `n` are there; c are 8 N columns from `to` on, and used up. The
  /// rows go there whole, by way of `stage`: as many in shared memory, which no other warp reads or writes.
  template <int R, int N, class Block, class F>
  static WEFT_ON_DEVICE void store(Block& block, tensor_sums<R, N>& c, F factor, int64 n, T* to, int64 apart, bool add,
                                   T* stage) {
    constexpr int lanes = lanes_of_row(N);
    const int lane = lane_of(block);
    const auto each_pack = [&](auto f) {
      for (int row = row_of<lanes>(lane); row < 16 * R && row < n; row += warp_size / lanes)
        for (int i = lane % lanes * 8; i < N * 8; i += lanes * 8)
          f(as_words(to + row * apart + i), as_words(stage + row * stride + i));
    };
    WEFT_UNROLLED for (int r = 0; r < R; ++r) WEFT_UNROLLED for (int k = 0; k < N; ++k)
        WEFT_UNROLLED for (int i = 0; i < 4; ++i) c.at[r][k][i] *= factor(r, i / 2);
    if (add) {
      each_pack([&](std::uint32_t* from, std::uint32_t* kept) { block.store(kept, block.template load<4>(from)); });
      block.sync_warp();
      WEFT_UNROLLED for (int r = 0; r < R; ++r) WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
        const int row = r * 16 + lane / 4 + i * 8;
        if (row >= n) continue;
        const T* const line = stage + row * stride + lane % 4 * 2;
        WEFT_UNROLLED for (int k = 0; k < N; ++k) {
          const auto old = block.template load<2>(line + k * 8);
          for (int j = 0; j < 2; ++j) c.at[r][k][2 * i + j] = block.widen(old.at[j]) + c.at[r][k][2 * i + j];
        }
      }
    }
    keep(block, rounded(block, c), stage);
    block.sync_warp();
    each_pack([&](std::uint32_t* y, std::uint32_t* kept) { block.store_whole(y, block.template load<4>(kept)); });
  }

 private:
  static WEFT_ON_DEVICE std::uint32_t* as_words(T* pairs) { return reinterpret_cast<std::uint32_t*>(pairs); }
  // How many lanes take a row of so many packs of 16 bytes at a time, and with which row one begins: of rows that less
  // than 8 lanes take, a quarter of a warp has two, which 4 rows apart lie in different banks.
  static constexpr int lanes_of_row(int packs) { return packs & -packs; }
  template <int Lanes>
  static WEFT_ON_DEVICE int row_of(int thread) {
    const int first = thread / Lanes;
    return Lanes < 8 ? first / 8 * 8 + first % 2 * 4 + first % 8 / 2 : first;
  }
  // The lane, by which addresses are worked out again in each product: they would take registers from one to the next.
  template <class Block>
  static WEFT_ON_DEVICE int lane_of(const Block& block) {
    return block.anew(block.lane()) & (warp_size - 1);
  }
};

}  // namespace weft::gpu
