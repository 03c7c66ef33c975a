// A matrix product in four steps, as an example of kernels of one's own: by the definition, with tiles in shared
// memory, and on the tensor cores without and with gaps between rows. docs/cuda.md goes through them. Invariant: all
// compute the same, to rounding.
#pragma once

#include <weft/backend/cuda/kernel.hpp>
#include <weft/core/dtype.hpp>

namespace own {
using weft::bf16, weft::gpu::fragment, weft::gpu::int64, weft::gpu::pack;

/// out[i, j] = sum over x of a[i, x] b[j, x].  // a [m, k], b [n, k], out [m, n]; m, n and k multiples of 64
struct product {
  int m, n, k;
  const bf16 *a, *b;
  float* out;
};

/// A thread for each element of the output.
struct naive_product : product {
  int64 blocks() const { return int64{m} * n / 256; }
  static constexpr std::size_t shared_bytes = 0;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const int64 at = block.index() * block.threads() + block.thread(), i = at / n, j = at % n;
    float sum = 0;
    for (int x = 0; x < k; ++x) sum = block.fma(block.widen(a[i * k + x]), block.widen(b[j * k + x]), sum);
    out[at] = sum;
  }
};

/// A block for 64 x 64 elements of the output, a thread for 4 x 4 of them; 32 columns of its rows at a time lie in
/// shared memory, a word apart from whole banks.
struct tiled_product : product {
  static constexpr int threads = 256, tile = 64, depth = 32, stride = depth + 1;
  int64 blocks() const { return int64{m / tile} * (n / tile); }
  static constexpr std::size_t shared_bytes = 2 * tile * stride * sizeof(float);

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    float* const left = block.template shared<float>();  // [tile, depth]
    float* const right = left + tile * stride;
    const int64 i0 = block.index() / (n / tile) * tile, j0 = block.index() % (n / tile) * tile;
    const int row = block.thread() / 4, column = block.thread() % 4 * 8;  // of what this thread brings: 8 numbers
    const int y = block.thread() / 16, z = block.thread() % 16;           // of what it computes
    float sum[4][4] = {};
    for (int x0 = 0; x0 < k; x0 += depth) {
      const auto of_a = block.template load<8>(a + (i0 + row) * k + x0 + column);
      const auto of_b = block.template load<8>(b + (j0 + row) * k + x0 + column);
      WEFT_UNROLLED for (int e = 0; e < 8; ++e) {
        left[row * stride + column + e] = block.widen(of_a.at[e]);
        right[row * stride + column + e] = block.widen(of_b.at[e]);
      }
      block.sync();
      WEFT_UNROLLED for (int x = 0; x < depth; ++x) WEFT_UNROLLED for (int r = 0; r < 4; ++r)
          WEFT_UNROLLED for (int c = 0; c < 4; ++c) sum[r][c] =
              block.fma(left[(y + 16 * r) * stride + x], right[(z + 16 * c) * stride + x], sum[r][c]);
      block.sync();  // all have read the tiles
    }
    WEFT_UNROLLED for (int r = 0; r < 4; ++r) WEFT_UNROLLED for (int c = 0; c < 4; ++c)
        out[(i0 + y + 16 * r) * n + j0 + z + 16 * c] = sum[r][c];
  }
};

/// A block of four warps for 64 x 64 elements, a warp for 16 rows of them. While the tensor cores multiply 64 columns
/// of the rows, the next 64 are copied. Gap: numbers between the rows of a tile; 0 puts all rows into the same banks.
template <int Gap>
struct tensor_product : product {
  static constexpr int threads = 128, tile = 64, depth = 64, stride = depth + Gap;
  int64 blocks() const { return int64{m / tile} * (n / tile); }
  static constexpr std::size_t shared_bytes = 2 * 2 * tile * stride * sizeof(bf16);

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    bf16* const stages = block.template shared<bf16>();  // [2, left and right, tile, depth]
    const int64 i0 = block.index() / (n / tile) * tile, j0 = block.index() % (n / tile) * tile;
    const auto fetch = [&](int stage, int x0) {
      bf16* const to = stages + stage * 2 * tile * stride;
      for (int p = block.thread(); p < tile * depth / 8; p += threads) {
        const int row = p / (depth / 8), column = p % (depth / 8) * 8;
        block.template copy_later<8>(to + row * stride + column, a + (i0 + row) * k + x0 + column, true);
        block.template copy_later<8>(to + (tile + row) * stride + column, b + (j0 + row) * k + x0 + column, true);
      }
    };
    fetch(0, 0);
    block.end_copies();
    const int lane = block.lane();
    float sum[tile / 8][4] = {};
    for (int x0 = 0, stage = 0; x0 < k; x0 += depth, stage ^= 1) {
      if (x0 + depth < k) fetch(stage ^ 1, x0 + depth);
      block.end_copies();
      block.template wait_for_copies<1>();  // this stage's, of this thread
      block.sync();                         // and of all
      const bf16* const left = stages + (stage * 2 * tile + block.warp() * 16) * stride;
      const bf16* const right = stages + (stage * 2 + 1) * tile * stride;
      WEFT_UNROLLED for (int d = 0; d < depth; d += 16) {
        const fragment f = block.template load_matrices<false>(left + lane % 16 * stride + lane / 16 * 8 + d);
        WEFT_UNROLLED for (int c = 0; c < tile; c += 16) {
          const fragment g = block.template load_matrices<false>(right + (c + lane % 8 + lane / 16 * 8) * stride +
                                                                 lane / 8 % 2 * 8 + d);
          block.template mma<bf16>(sum[c / 8], f, g.at[0], g.at[1]);
          block.template mma<bf16>(sum[c / 8 + 1], f, g.at[2], g.at[3]);
        }
      }
      block.sync();  // all have read the stage
    }
    WEFT_UNROLLED for (int c = 0; c < tile / 8; ++c) WEFT_UNROLLED for (int h = 0; h < 2; ++h)
        block.store(out + (i0 + block.warp() * 16 + lane / 4 + 8 * h) * n + j0 + c * 8 + lane % 4 * 2,
                    pack<float, 2>{{sum[c][2 * h], sum[c][2 * h + 1]}});
  }
};

}  // namespace own
