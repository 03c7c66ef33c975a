// Tiles of attention in shared memory: loading, storing, and the two products that attention is made of, for any
// element type and head_dim. Invariant: which thread adds up what doesn't change a sum's order, so the bits are the
// same for every number of threads and blocks.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/backend/cuda/kernel.hpp>

namespace weft::gpu {

/// What a block may take of a multiprocessor's shared memory so that two share one of sm_90.
inline constexpr std::size_t half_of_shared_memory = 112 * 1024;

/// Threads of a block of attention in plain arithmetic.
inline constexpr int attention_threads = 128;

/// A tile: `rows` queries or keys of one head, as A. Rows lie an odd number of A apart, so that neighbouring rows are
/// in different banks of shared memory; the columns from head_dim to `width` are zero. Products read it a number at
/// a time: lanes share numbers, and all that want one get it from one wavefront, which packs would give to each quarter
/// of a warp anew.
template <class A>
struct attention_tile {
  static constexpr int step = pack_size<A>;  // columns that are taken together
  int rows;                                  // 8, 16, 32 or 64
  int head_dim;
  int width;   // head_dim rounded up to whole steps
  int stride;  // between rows [rows, head_dim]
  int square;  // between rows [rows, rows]

  /// The largest of which a block can have so many [rows, head_dim] and [rows, rows] in half of the shared memory, and
  /// in what one may have, block_memory; or the smallest that there is.
  static attention_tile choose(int64 head_dim, int arrays, int squares, std::size_t block_memory) {
    const std::size_t room = block_memory < half_of_shared_memory ? block_memory : half_of_shared_memory;
    attention_tile t{64, static_cast<int>(head_dim), static_cast<int>((head_dim + step - 1) / step * step), 0, 0};
    t.stride = t.width + 1;
    for (;; t.rows /= 2) {
      t.square = t.rows + 1;
      if (t.rows == 8 || t.bytes(arrays, squares) <= room) return t;
    }
  }
  constexpr int elements() const { return rows * stride; }
  constexpr int square_elements() const { return rows * square; }
  /// Shared memory of a kernel with so many of them, and three numbers a row.
  std::size_t bytes(int arrays, int squares) const {
    return static_cast<std::size_t>(arrays * elements() + squares * square_elements() + 3 * rows) * sizeof(A);
  }
};

/// The first query of [from, end) whose document begins behind `key`, or `end`; along a row beginnings never fall.
template <class Int>
WEFT_ON_DEVICE Int end_of_document(const std::int32_t* documents, Int from, Int end, Int key) {
  while (from < end) {
    const Int middle = from + (end - from) / 2;
    if (documents[middle] > key)
      end = middle;
    else
      from = middle + 1;
  }
  return end;
}
/// The queries of batch entry b that may see a key of [begin, end): first_query ... end_query - 1. Documents: whether
/// there are any; then query end - 1, whose own key is there, sees that one wherever its document begins.
WEFT_ON_DEVICE inline int64 first_query(const attention_shape& s, int64 begin) {
  const int64 first = s.causal ? begin - (s.kv_len - s.q_len) : 0;
  return first < 0 ? 0 : first;
}
template <bool Documents>
WEFT_ON_DEVICE int64 end_query(const attention_shape& s, int64 b, int64 end) {
  const int64 last =
      s.causal && s.window > 0 && s.window < s.kv_len ? end - 1 + s.window - (s.kv_len - s.q_len) : s.q_len;
  const int64 all = last < s.q_len ? last : s.q_len;
  if constexpr (Documents) return end_of_document(s.documents + b * s.q_len, end, all, end - 1);
  return all;
}

/// f.operator()<N>(row, column) for N neighbours of a tile at a time, shared out among the threads.
template <class T, class A, class Block, class F>
WEFT_ON_DEVICE void for_tile(const Block& block, const attention_tile<A>& t, bool packed, F f) {
  const auto go = [&]<int N>() {
    const int columns = (N == 1 ? t.width : t.head_dim) / N;
    for (int i = block.thread(); i < t.rows * columns; i += block.threads())
      f.template operator()<N>(i / columns, i % columns * N);
  };
  if (packed)
    go.template operator()<pack_size<T>>();
  else
    go.template operator()<1>();
}

/// to = factor * from, of which `n` rows are there, `apart` elements from each other; zeros in the others. `packed`:
/// every row is aligned for packs, and head_dim a multiple of them.
template <class T, class A, class Block>
WEFT_ON_DEVICE void load_tile(const Block& block, const attention_tile<A>& t, int64 n, const T* from, int64 apart,
                              A factor, A* to, bool packed) {
  for_tile<T>(block, t, packed, [&]<int N>(int row, int column) {
    pack<T, N> in{};
    if (row < n && column < t.head_dim) in = block.template load<N>(from + row * apart + column);
    for (int k = 0; k < N; ++k) to[row * t.stride + column + k] = block.widen(in.at[k]) * factor;
  });
}
template <class A, class Block>
WEFT_ON_DEVICE void zero_tile(const Block& block, const attention_tile<A>& t, A* to) {
  for (int i = block.thread(); i < t.elements(); i += block.threads()) to[i] = A(0);
}
/// to (+)= factor(row) * from, `n` rows of it.
template <class T, class A, class Block, class F>
WEFT_ON_DEVICE void store_tile(const Block& block, const attention_tile<A>& t, int64 n, const A* from, F factor, T* to,
                               int64 apart, bool add, bool packed) {
  for_tile<T>(block, t, packed, [&]<int N>(int row, int column) {
    if (row >= n || column >= t.head_dim) return;
    T* const y = to + row * apart + column;
    const A f = factor(row);
    pack<T, N> old{}, out;
    if (add) old = block.template load<N>(static_cast<const T*>(y));
    for (int k = 0; k < N; ++k) {
      const A x = from[row * t.stride + column + k] * f;
      out.at[k] = block.template narrow<T>(add ? block.widen(old.at[k]) + x : x);
    }
    block.store(y, out);
  });
}

/// f.operator()<R, C>(row, column, down, across) for the cells of a [rows, rows] product, shared out among the threads:
/// a cell is the R rows row, row + down, ... at the C columns column, column + across, ... 128 threads have one cell
/// each where the tile has 16 rows or more. Of a step in head_dim a thread reads R + C numbers for R C products.
template <class A, class Block, class F>
WEFT_ON_DEVICE void for_cells(const Block& block, const attention_tile<A>& t, F f) {
  const auto go = [&]<int R, int C>() {
    const int down = t.rows / R, across = t.rows / C;
    for (int i = block.thread(); i < down * across; i += block.threads())
      f.template operator()<R, C>(i / across, i % across, down, across);
  };
  if (t.rows == 64)
    go.template operator()<8, 4>();
  else if (t.rows == 32)
    go.template operator()<4, 2>();
  else if (t.rows == 16)
    go.template operator()<2, 1>();
  else
    go.template operator()<1, 1>();
}
/// The products of R rows of a and C rows of b, both [rows, head_dim], in order of the column.
template <int R, int C, class A>
WEFT_ON_DEVICE void multiply_cell(const attention_tile<A>& t, const A* a, int row, int down, const A* b, int column,
                                  int across, array_of<array_of<A, C>, R>& sum) {
  constexpr int step = attention_tile<A>::step;
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) sum[i][j] = A(0);
  const int a_apart = down * t.stride, b_apart = across * t.stride;
  const A *of_a = a + row * t.stride, *of_b = b + column * t.stride;
  for (int k = 0; k < t.width; k += step, of_a += step, of_b += step) {
    WEFT_UNROLLED
    for (int l = 0; l < step; ++l) {
      array_of<A, R> x;
      array_of<A, C> y;
      for (int i = 0; i < R; ++i) x[i] = of_a[i * a_apart + l];
      for (int j = 0; j < C; ++j) y[j] = of_b[j * b_apart + l];
      for (int i = 0; i < R; ++i)
        for (int j = 0; j < C; ++j) sum[i][j] += x[i] * y[j];
    }
  }
}

/// c = keep(row) * c + p b, with p [rows, rows], b and c [rows, head_dim]; the product is summed before it is added.
template <class A, class Block, class F>
WEFT_ON_DEVICE void multiply_tile(const Block& block, const attention_tile<A>& t, const A* p, const A* b, F keep,
                                  A* c) {
  constexpr int step = attention_tile<A>::step, lines = 8;
  const int apart = t.width / step;  // a thread's columns, so that neighbours read neighbours
  for (int at = block.thread(); at < t.rows / lines * apart; at += block.threads()) {
    const int row = at / apart * lines, column = at % apart;
    array_of<array_of<A, step>, lines> sum = {};
    const A *of_p = p + row * t.square, *of_b = b + column;
    for (int k = 0; k < t.rows; k += step, of_p += step, of_b += step * t.stride) {
      WEFT_UNROLLED
      for (int l = 0; l < step; ++l) {
        array_of<A, lines> x;
        array_of<A, step> y;
        for (int i = 0; i < lines; ++i) x[i] = of_p[i * t.square + l];
        for (int j = 0; j < step; ++j) y[j] = of_b[l * t.stride + j * apart];
        for (int i = 0; i < lines; ++i)
          for (int j = 0; j < step; ++j) sum[i][j] += x[i] * y[j];
      }
    }
    A* line = c + row * t.stride + column;
    for (int i = 0; i < lines; ++i, line += t.stride) {
      const A kept = keep(row + i);
      for (int j = 0; j < step; ++j) line[j * apart] = kept * line[j * apart] + sum[i][j];
    }
  }
}

}  // namespace weft::gpu
