// Cross-entropy over a vocabulary that may be cut over ranks, in the pieces between which ranks meet, as kernel bodies:
// a block takes a row. Invariant: logits are read as stored and no second array of their size is made; a negative
// target ignores its row; an element is written by the thread that reads it, so dx may be x.
// Of n logits in r rows, with sums in A:
//   row_max_kernel: n T + A r bytes, n FLOPs
//   row_sums_kernel: n T + 4 A r bytes, 3 n FLOPs
//   row_loss_kernel: 5 A r bytes, 6 r FLOPs
//   cross_entropy_backward_kernel: 2 n T + 4 A r bytes, 4 n FLOPs
#pragma once

#include <weft/backend/cuda/kernels/reduce.hpp>

namespace weft::gpu {

/// m[row] = the largest of n logits.  // x [rows, stride], m [rows]
template <class T>
struct row_max_kernel {
  using A = accumulate_t<T>;
  int64 rows, n;
  const T* x;
  A* m;
  int64 stride;
  bool packed;  // every row is aligned for packs

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for (int64 row = block.index(); row < rows; row += block.blocks()) {
      A most = start_of<reduce::max, A>();
      for_packs<pack_size<T>>(block.thread(), block.threads(), n, packed, [&]<int N>(int64 i) {
        const pack<T, N> in = block.template load<N>(x + row * stride + i);
        for (int k = 0; k < N; ++k) most = join<reduce::max>(most, block.widen(in.at[k]));
      });
      most = block_reduce<reduce::max>(block, most, block.template shared<A>());
      if (block.thread() == 0) m[row] = most;
    }
  }
};

/// exps[row] = sum of exp(x - m), logit[row] = the target's logit or 0 where its column isn't among these n, sums[row]
/// = sum of x - m, which may be null.
template <class T>
struct row_sums_kernel {
  using A = accumulate_t<T>;
  int64 rows, n;
  const T* x;
  int64 begin;
  const std::int32_t* ids;
  const A* m;
  A *exps, *logit, *sums;
  int64 stride;
  bool packed;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for (int64 row = block.index(); row < rows; row += block.blocks()) {
      const T* const from = x + row * stride;
      const A most = m[row];
      const auto sum = [&](auto f) {
        A all = 0;
        for_packs<pack_size<T>>(block.thread(), block.threads(), n, packed, [&]<int N>(int64 i) {
          const pack<T, N> in = block.template load<N>(from + i);
          for (int k = 0; k < N; ++k) all += f(block.widen(in.at[k]) - most);
        });
        return block_sum(block, all, block.template shared<A>());
      };
      const A of_exps = sum([&](A below) { return block.exp(below); });
      const A of_all = sums ? sum([](A below) { return below; }) : A(0);
      if (block.thread() != 0) continue;
      const int64 column = ids[row] - begin;
      exps[row] = of_exps;
      logit[row] = ids[row] >= 0 && column >= 0 && column < n ? block.widen(from[column]) : A(0);
      if (sums) sums[row] = of_all;
    }
  }
};

/// log_sum[row] = log(exps[row]); the losses' sum and how many rows count, in double. One block.
template <class A>
struct row_loss_kernel {
  int64 rows;
  const std::int32_t* ids;
  const A *m, *exps, *logit, *sums;  // sums may be null where smoothing is 0
  double smoothing, vocab;
  A *log_sum, *loss, *count;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    double total = 0, counted = 0;
    for (int64 row = block.thread(); row < rows; row += block.threads()) {
      const double of_sum = block.log(static_cast<double>(exps[row]));
      log_sum[row] = static_cast<A>(of_sum);
      if (ids[row] < 0) continue;
      const double spread = smoothing != 0 ? smoothing * static_cast<double>(sums[row]) / vocab : 0;
      const double below = static_cast<double>(logit[row]) - static_cast<double>(m[row]);
      total += of_sum - (1 - smoothing) * below - spread;
      counted += 1;
    }
    total = block_sum(block, total, block.template shared<double>());
    counted = block_sum(block, counted, block.template shared<double>());
    if (block.thread() != 0) return;
    *loss = static_cast<A>(total);
    *count = static_cast<A>(counted);
  }
};

/// dx = (p - at_target * onehot(target) - everywhere) * g[row] with p = exp(x - m[row]) / exp(log_sum[row]); 0 in
/// ignored rows and in the columns from n on.  // x, dx [rows, stride]
template <class T>
struct cross_entropy_backward_kernel {
  using A = accumulate_t<T>;
  int64 rows, n;
  const T* x;
  int64 begin;
  const std::int32_t* ids;
  const A *m, *log_sum, *g;
  A everywhere, at_target;
  T* dx;
  int64 stride;
  bool packed;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for (int64 row = block.index(); row < rows; row += block.blocks()) {
      const bool ignored = ids[row] < 0;
      const int64 column = ids[row] - begin;
      const A most = m[row], inverse = block.exp(-log_sum[row]), slope = g[row];
      for_packs<pack_size<T>>(block.thread(), block.threads(), n, packed, [&]<int N>(int64 i) {
        const pack<T, N> in = block.template load<N>(x + row * stride + i);
        pack<T, N> out;
        for (int k = 0; k < N; ++k) {
          const A p = block.exp(block.widen(in.at[k]) - most) * inverse;
          const A hot = i + k == column ? at_target : A(0);
          out.at[k] = block.template narrow<T>(ignored ? A(0) : (p - everywhere - hot) * slope);
        }
        block.store(dx + row * stride + i, out);
      });
      for (int64 i = n + block.thread(); i < stride; i += block.threads())
        dx[row * stride + i] = block.template narrow<T>(A(0));
    }
  }
};

}  // namespace weft::gpu
