// Rows of a table by id, and the gradient that goes back into the table.
// Invariant: rows of equal id are added by a tree in the order of the batch, whatever the team, and rounded to the
// type of the table once.
#pragma once

#include <cstring>

#include <weft/backend/cpu/reduce.hpp>

namespace weft::cpu {

namespace detail {

/// A counting sort: rows of id `i` stand in order[start[i]] ... order[start[i + 1] - 1], in the order of the batch.
/// start has count + 2 places, order has `rows`.
WEFT_LINKED void sort_rows(int64 rows, const std::int32_t* ids, int64 begin, int64 count, int64* start, int64* order) {
  std::memset(start, 0, static_cast<std::size_t>(count + 2) * sizeof(int64));
  for (int64 row = 0; row < rows; ++row) {
    const int64 id = ids[row] - begin;
    if (id >= 0 && id < count) ++start[id + 2];
  }
  for (int64 id = 0; id < count; ++id) start[id + 2] += start[id + 1];
  for (int64 row = 0; row < rows; ++row) {
    const int64 id = ids[row] - begin;
    if (id >= 0 && id < count) order[start[id + 1]++] = row;
  }
}

constexpr int64 sorted_places(int64 rows, int64 count) { return count + 2 + rows; }

}  // namespace detail

/// y[row] = table[ids[row] - begin], or zeros when the id is outside [begin, begin + count).
/// ids [rows], table [count, width], y [rows, width]
template <class T>
void embedding(team& workers, int64 rows, int64 width, const std::int32_t* ids, int64 begin, int64 count,
               const T* table, T* y) {
  detail::for_rows(workers, rows, width, [=](int64 first, int64 last) {
    for (int64 row = first; row < last; ++row) {
      const int64 id = ids[row] - begin;
      if (id >= 0 && id < count) {
        std::memcpy(static_cast<void*>(y + row * width), table + id * width,
                    static_cast<std::size_t>(width) * sizeof(T));
      } else {
        std::memset(static_cast<void*>(y + row * width), 0, static_cast<std::size_t>(width) * sizeof(T));
      }
    }
  });
}

/// dtable[ids[row] - begin] += dy[row]; dtable becomes zero first unless `add`. G is T or the accumulate type.
/// dy [rows, width], dtable [count, width]
template <class T, class G>
void embedding_backward(team& workers, int64 rows, int64 width, const std::int32_t* ids, int64 begin, int64 count,
                        const T* dy, G* dtable, bool add) {
  using A = accumulate_t<T>;
  static_assert(std::is_same_v<G, T> || std::is_same_v<G, A>, "dtable has the type of dy or its accumulate type");
  using columns_of_run = detail::joined_columns<reduce::sum, A>;
  constexpr int64 run = 256;  // columns of one task
  const detail::using_stack own(workers.stack());
  const scratch memory(static_cast<std::size_t>(detail::sorted_places(rows, count)) * sizeof(int64));
  int64* const start = memory.as<int64>();
  int64* const order = start + count + 2;
  detail::sort_rows(rows, ids, begin, count, start, order);
  const int64 runs = (width + run - 1) / run;
  detail::for_blocks(workers, count * runs, 16, [=](int64 first, int64 last) {
    for (int64 piece = first; piece < last; ++piece) {
      const int64 id = piece / runs, column = piece % runs * run, n = width - column < run ? width - column : run;
      G* const to = dtable + id * width + column;
      if (start[id] == start[id + 1]) {
        if (!add) std::memset(static_cast<void*>(to), 0, static_cast<std::size_t>(n) * sizeof(G));
        continue;
      }
      const int64 together = 16, times = start[id + 1] - start[id];
      const int64* const which = order + start[id];
      if (times <= together) {  // as most are
        detail::sum_chosen_rows(times, which, width, n, dy + column, to, add);
        continue;
      }
      columns_of_run columns(n);
      A some[run];
      for (int64 i = 0; i < times; i += together) {
        detail::sum_chosen_rows(times - i < together ? times - i : together, which + i, width, n, dy + column, some,
                                false);
        columns.add(1, 0, static_cast<const A*>(some));
      }
      columns.put(to, add);
    }
  });
}
/// What that call takes of scratch on a team of so many threads.
template <class T, class G>
scratch_need embedding_backward_scratch(int /*threads*/, int64 rows, int64, const std::int32_t*, int64, int64 count,
                                        const T*, G*, bool) {
  return {detail::scratch_lines(detail::sorted_places(rows, count), sizeof(int64))};
}

}  // namespace weft::cpu
