// Reductions: sums, maxima and minima over chosen dimensions, a sum's way back, and the sum of squares of an array.
// Invariant: the order of every sum depends on the shape alone: neither on the team nor on the instruction set. Sums
// are trees of short runs, so that their error grows with the logarithm of their length.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/backend/cpu/elementwise.hpp>
#include <weft/backend/cpu/index.hpp>

#define WEFT_KERNELS <weft/backend/cpu/reduce.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu {

namespace detail {

template <reduce Kind, class T>
accumulate_t<T> reduce_row(int64 n, const T* x) {
  WEFT_DISPATCH(reduce_row<Kind>, n, x);
}
template <reduce Kind, class T>
void reduce_columns(int64 rows, int64 stride, int64 n, const T* x, accumulate_t<T>* y) {
  WEFT_DISPATCH(reduce_columns<Kind>, rows, stride, n, x, y);
}
template <class T>
void repeat_number(int64 n, accumulate_t<T> number, T* to, bool add) {
  WEFT_DISPATCH(repeat_number, n, number, to, add);
}
template <class T>
double sum_of_squares_block(int64 n, const T* x) {
  WEFT_DISPATCH(sum_of_squares_block, n, x);
}

template <class A>
A start_of(reduce kind) {
  const A infinity = static_cast<A>(__builtin_inff());
  return kind == reduce::sum ? A(0) : kind == reduce::max ? -infinity : infinity;
}
template <class A>
A join(reduce kind, A a, A b) {
  if (kind == reduce::sum) return a + b;
  return (kind == reduce::max) == (b > a) ? b : a;
}

/// What a reduction walks over, whatever its element type: the kept extents outside, the reduced ones inside.
struct reduction_nest {
  int64 size = 1, outputs = 1;
  bool last_is_kept = false;  // of the last dimension that is not 1
  loop<1> outer, inner;
};

WEFT_LINKED reduction_nest reduction_nest_of(int ndim, const int64* extents, const bool* reduced) {
  require(ndim >= 0 && ndim <= max_ndim, "reduce_dims takes at most ", max_ndim, " dimensions, not ", ndim,
          ": join dimensions first.");
  int64 kept_extents[max_ndim] = {}, kept_strides[max_ndim] = {}, gone_extents[max_ndim] = {},
        gone_strides[max_ndim] = {};
  int64 strides[max_ndim] = {}, size = 1, outputs = 1;
  int kept = 0, gone = 0;
  bool last_is_kept = false;
  for (int d = ndim - 1; d >= 0; --d) {
    if (size == 1 && extents[d] != 1) last_is_kept = !reduced[d];
    strides[d] = size, size *= extents[d];
  }
  for (int d = 0; d < ndim; ++d) {
    if (reduced[d])
      gone_extents[gone] = extents[d], gone_strides[gone++] = strides[d];
    else
      kept_extents[kept] = extents[d], kept_strides[kept++] = strides[d], outputs *= extents[d];
  }
  return {size, outputs, last_is_kept, {kept, kept_extents, {kept_strides}}, {gone, gone_extents, {gone_strides}}};
}

template <class T, class Out>
void sum_chosen_rows(int64 rows, const int64* which, int64 stride, int64 n, const T* x, Out* to, bool add) {
  WEFT_DISPATCH(sum_chosen_rows, rows, which, stride, n, x, to, add);
}

/// Columns joined row by row; of a sum 16 rows at a time, 16 of these sums, 16 of those and so on.
template <reduce Kind, class A>
class joined_columns {
 public:
  static constexpr int64 most = 512;  // columns

  explicit joined_columns(int64 n) : n_(n) { clear(0); }

  template <class T>
  void add(int64 rows, int64 stride, const T* x) {
    for (int64 first = 0; first < rows; first += fan) {
      reduce_columns<Kind>(rows - first < fan ? rows - first : fan, stride, n_, x + first * stride, level_[0]);
      if constexpr (Kind == reduce::sum) {
        ++chunks_;
        int k = 0;
        for (int64 c = chunks_; c % fan == 0 && k + 1 < levels; c /= fan, ++k) carry(k);
      }
    }
  }
  template <class Out>
  void put(Out* y, bool add) {
    for (int k = 0; k < used_; ++k) reduce_columns<Kind>(1, 0, n_, level_[k], level_[used_]);
    convert_block(n_, static_cast<const A*>(level_[used_]), y, add);
  }

 private:
  static constexpr int64 fan = 16;
  static constexpr int levels = Kind == reduce::sum ? 7 : 1;  // 16^7 rows; more make the last run longer

  void clear(int k) {
    for (int64 j = 0; j < n_; ++j) level_[k][j] = start_of<A>(Kind);
  }
  void carry(int k) {
    if (k == used_) clear(++used_);
    reduce_columns<Kind>(1, 0, n_, level_[k], level_[k + 1]);
    clear(k);
  }

  int64 n_, chunks_ = 0;
  int used_ = 0;
  alignas(64) A level_[std::size_t{levels}][most];
};

/// y (+)= the sum of the rows of x.  // x [rows, width], y [width]
template <class A, class Out>
void sum_rows(team& workers, int64 rows, int64 width, const A* x, Out* y, bool add) {
  using columns_of_run = joined_columns<reduce::sum, A>;
  constexpr int64 run = columns_of_run::most;
  workers.parallel_for((width + run - 1) / run, [&](int64 task) {
    const int64 first = task * run, n = width - first < run ? width - first : run;
    columns_of_run columns(n);
    columns.add(rows, width, x + first);
    columns.put(y + first, add);
  });
}

}  // namespace detail

/// y (+)= x reduced over the dimensions where `reduced` is true; x contiguous, y the kept extents in order, contiguous.
/// Nothing reduced gives 0, -infinity (max) or infinity (min). Adding is for sums; a maximum added is a plain addition.
template <reduce Kind, class T, class Out>
void reduce_dims(team& workers, int ndim, const int64* extents, const bool* reduced, const T* x, Out* y, bool add) {
  using A = accumulate_t<T>;
  const detail::reduction_nest nest = detail::reduction_nest_of(ndim, extents, reduced);
  const auto &outer = nest.outer, &inner = nest.inner;
  const int64 size = nest.size, outputs = nest.outputs;
  if (outputs == 0) return;
  const int64 inputs = size / outputs;
  if (inputs == 0) {
    for (int64 i = 0; i < outputs; ++i) detail::put(y[i], detail::start_of<A>(Kind), add);
  } else if (outputs == 1) {  // everything: blocks first, then the blocks in order
    const int64 blocks = detail::blocks_of(size);
    const detail::using_stack own(workers.stack());
    const scratch memory(static_cast<std::size_t>(blocks) * sizeof(A));
    A* const parts = memory.as<A>();
    detail::for_blocks(workers, size, detail::block_elements, [=](int64 begin, int64 end) {
      parts[begin / detail::block_elements] = detail::reduce_row<Kind>(end - begin, x + begin);
    });
    detail::put(y[0], detail::reduce_row<Kind>(blocks, static_cast<const A*>(parts)), add);
  } else if (nest.last_is_kept) {  // whole rows joined, a run of columns a task
    using columns_of_run = detail::joined_columns<Kind, A>;
    constexpr int64 run = columns_of_run::most;
    const int64 width = outer.inner(), runs = (width + run - 1) / run;
    workers.parallel_for(outer.outer() * runs, [&](int64 task) {
      const int64 first = task % runs * run, n = width - first < run ? width - first : run;
      const T* const from = x + outer.offsets(task / runs)[0] + first;
      columns_of_run columns(n);
      for (int64 row = 0; row < inner.outer(); ++row)
        columns.add(inner.inner(), inner.inner_stride(0), from + inner.offsets(row)[0]);
      columns.put(y + task / runs * width + first, add);
    });
  } else {
    detail::for_rows(workers, outputs, inputs, [&](int64 begin, int64 end) {
      for (int64 i = begin; i < end; ++i) {
        const T* const from = x + outer.offsets(i / outer.inner())[0] + i % outer.inner() * outer.inner_stride(0);
        if (inner.outer() == 1) {
          detail::put(y[i], detail::reduce_row<Kind>(inner.inner(), from), add);
          continue;
        }
        double total = detail::start_of<double>(Kind);  // of A's numbers
        for (int64 row = 0; row < inner.outer(); ++row)
          total = detail::join(
              Kind, total, static_cast<double>(detail::reduce_row<Kind>(inner.inner(), from + inner.offsets(row)[0])));
        detail::put(y[i], static_cast<A>(total), add);
      }
    });
  }
}

/// What that call takes of scratch on a team of so many threads.
template <reduce Kind, class T, class Out>
scratch_need reduce_dims_scratch(int /*threads*/, int ndim, const int64* extents, const bool* reduced, const T*, Out*,
                                 bool) {
  int64 size = 1;
  bool whole = true;  // one output
  for (int d = 0; d < ndim; ++d) size *= extents[d], whole = whole && (reduced[d] || extents[d] == 1);
  return {whole ? detail::scratch_lines(detail::blocks_of(size), sizeof(accumulate_t<T>)) : 0};
}

/// x (+)= y repeated along the dimensions where `reduced` is true: a sum's way back. Layouts as in reduce_dims.
template <class T>
void repeat(team& workers, int ndim, const int64* extents, const bool* reduced, const T* y, T* x, bool add) {
  require(ndim >= 0 && ndim <= max_ndim, "repeat takes at most ", max_ndim, " dimensions, not ", ndim,
          ": join dimensions first.");
  int64 from[max_ndim], to[max_ndim], kept = 1, all = 1;
  for (int d = ndim - 1; d >= 0; --d) {
    to[d] = all, all *= extents[d];
    from[d] = reduced[d] ? 0 : kept, kept *= reduced[d] ? 1 : extents[d];
  }
  if (all == 0) return;
  const detail::loop<2> nest(ndim, extents, {from, to});
  const int64 width = nest.inner(), step = nest.inner_stride(0);
  const int64 piece = width < detail::block_elements ? width : detail::block_elements,
              pieces = (width + piece - 1) / piece;
  detail::for_rows(workers, nest.outer() * pieces, piece, [&](int64 begin, int64 end) {
    for (int64 i = begin; i < end; ++i) {
      const auto at = nest.offsets(i / pieces);
      const int64 first = i % pieces * piece, n = width - first < piece ? width - first : piece;
      if (step == 0)
        detail::repeat_number<T>(n, detail::widen(y[at[0]]), x + at[1] + first, add);
      else
        detail::convert_block(n, y + at[0] + first, x + at[1] + first, add);
    }
  });
}

/// to (+)= sum of x[i]^2: squares and sums in double, blocks in order.
template <class T>
void sum_of_squares(team& workers, int64 n, const T* x, double* to, bool add) {
  if (!add) *to = 0;
  if (n <= 0) return;
  const detail::using_stack own(workers.stack());
  const scratch memory(static_cast<std::size_t>(detail::blocks_of(n)) * sizeof(double));
  double* const parts = memory.as<double>();
  detail::for_blocks(workers, n, detail::block_elements, [=](int64 begin, int64 end) {
    parts[begin / detail::block_elements] = detail::sum_of_squares_block(end - begin, x + begin);
  });
  double total = 0;
  for (int64 i = 0; i < n; i += detail::block_elements) total += parts[i / detail::block_elements];
  *to += total;
}
/// What that call takes of scratch on a team of so many threads.
template <class T>
scratch_need sum_of_squares_scratch(int /*threads*/, int64 n, const T*, double*, bool) {
  return {detail::scratch_lines(n <= 0 ? 0 : detail::blocks_of(n), sizeof(double))};
}

}  // namespace weft::cpu
