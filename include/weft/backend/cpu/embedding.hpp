// Rows of a table by id, and the gradient that goes back into the table.
// Invariant: rows of equal id are added in the order of the batch, whatever the team.
#pragma once

#include <cstring>

#include <weft/backend/cpu/common.hpp>

namespace weft::cpu {

/// y[row] = table[ids[row] - begin], or zeros when the id is outside [begin, begin + count).
/// ids [rows], table [count, width], y [rows, width]
template <class T>
void embedding(team& workers, int64 rows, int64 width, const std::int32_t* ids, int64 begin, int64 count,
               const T* table, T* y) {
  detail::for_rows(workers, rows, width, [=](int64 first, int64 last) {
    for (int64 row = first; row < last; ++row) {
      const int64 id = ids[row] - begin;
      if (id >= 0 && id < count) {
        std::memcpy(y + row * width, table + id * width, static_cast<std::size_t>(width) * sizeof(T));
      } else {
        std::memset(static_cast<void*>(y + row * width), 0, static_cast<std::size_t>(width) * sizeof(T));
      }
    }
  });
}

/// dtable[ids[row] - begin] += dy[row]; zeroes dtable first unless `add`.  // dy [rows, width], dtable [count, width]
template <class T, class G>
void embedding_backward(team& workers, int64 rows, int64 width, const std::int32_t* ids, int64 begin, int64 count,
                        const T* dy, G* dtable, bool add) {
  constexpr int64 columns = 64;  // a task owns these columns of the whole table
  detail::for_blocks(workers, width, columns, [=](int64 first, int64 last) {
    if (!add)
      for (int64 id = 0; id < count; ++id)
        for (int64 i = first; i < last; ++i) dtable[id * width + i] = G();
    for (int64 row = 0; row < rows; ++row) {
      const int64 id = ids[row] - begin;
      if (id < 0 || id >= count) continue;
      for (int64 i = first; i < last; ++i)
        dtable[id * width + i] =
            detail::narrow<G>(detail::widen(dtable[id * width + i]) + detail::widen(dy[row * width + i]));
    }
  });
}

}  // namespace weft::cpu
