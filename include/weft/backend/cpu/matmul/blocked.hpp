// The blocked product of two matrices: cuts k, m and n to the caches, packs what is worth packing, shares tasks.
// Invariant: cuts along k depend on sizes only, never on the team, so neither does the result.
#pragma once

#include <weft/backend/cpu/matmul/types.hpp>
#include <weft/backend/cpu/scratch.hpp>
#include <weft/backend/cpu/team.hpp>

namespace weft::cpu::detail {

/// One product; strides in elements.
template <class T, class Out>
struct matmul_operands {
  std::int64_t m, n, k;
  const T* a;
  std::int64_t a_row, a_column;
  const T* b;
  std::int64_t b_row, b_column;
  Out* c;
  std::int64_t c_row;
  bool accumulate;
};

/// Both operands as the kernels want them, for one cut of k.
template <class T, class Out>
void matmul_cut(team* cores, const matmul_kernels<T, Out>& kernels, const matmul_operands<T, Out>& p) {
  constexpr std::int64_t unit = unit_bytes<T>;
  constexpr std::int64_t most_columns = 1024;  // of b packed at a time
  constexpr std::int64_t most_a = 512 << 10;   // bytes of packed a per task: stays in the second cache
  const std::int64_t height = kernels.rows, width = kernels.columns;
  const std::int64_t units = round_up(ceil_div(p.k, kernels.values_per_unit), kernels.unit_multiple);
  const std::int64_t panels = ceil_div(p.m, height);
  const bool whole_units = p.k % kernels.values_per_unit == 0;
  const bool a_fits = kernels.values_per_unit == 1 || (p.a_column == 1 && whole_units);
  const bool direct_a = kernels.direct_a && a_fits && p.n <= 4 * width;
  const bool direct_b = kernels.direct_b && p.b_column == 1 && p.m <= 6 * height;
  const panel_layout packed_a{unit, unit * height, unit * height * units};
  const panel_layout packed_b{unit, unit * width, unit * width * units};
  const std::int64_t a_unit = p.a_column * kernels.values_per_unit;
  const panel_layout lying_a{p.a_row * std::int64_t{sizeof(T)}, a_unit * std::int64_t{sizeof(T)},
                             p.a_row * height * std::int64_t{sizeof(T)}};
  const panel_layout lying_b{unit, p.b_row * unit, width * unit};

  for (std::int64_t first = 0; first < p.n; first += most_columns) {
    const std::int64_t columns = p.n - first < most_columns ? p.n - first : most_columns;
    const T* b = p.b + first * p.b_column;
    const std::int64_t b_panels = direct_b ? (columns % width != 0) : ceil_div(columns, width);
    const std::int64_t b_start = direct_b ? columns / width * width : 0;  // the first column that is packed
    scratch packed(static_cast<std::size_t>(b_panels * packed_b.panel));
    char* const b_memory = packed.as<char>();
    const std::int64_t at_once = ceil_div(8192, units) < 1 ? 1 : ceil_div(8192, units);  // panels a packing task
    team::share(cores, ceil_div(b_panels, at_once), [&](std::int64_t task) {
      const std::int64_t from = b_start + task * at_once * width;
      const std::int64_t count = columns - from < at_once * width ? columns - from : at_once * width;
      kernels.pack_b(b + from * p.b_column, p.b_column, p.b_row, count, p.k,
                     b_memory + task * at_once * packed_b.panel);
    });

    // Blocks of rows, and groups of columns where rows alone would not keep the team busy.
    const std::int64_t size = cores ? cores->size() : 1;
    const std::int64_t most_panels = most_a / packed_a.panel < 1 ? 1 : most_a / packed_a.panel;
    std::int64_t blocks = ceil_div(panels, most_panels), groups = 1;
    if (size > 1) {
      if (panels >= 8 * size)
        blocks = round_up(blocks, size);
      else
        groups = size < ceil_div(columns, width) ? size : ceil_div(columns, width);
    }
    team::share(cores, blocks * groups, [&](std::int64_t task) {
      const std::int64_t row_block = task / groups, group = task % groups;
      const std::int64_t first_row = panels * row_block / blocks * height;
      const std::int64_t last = panels * (row_block + 1) / blocks * height, last_row = last < p.m ? last : p.m;
      const std::int64_t b_all = ceil_div(columns, width);
      const std::int64_t first_column = b_all * group / groups * width;
      const std::int64_t end = b_all * (group + 1) / groups * width, last_column = end < columns ? end : columns;
      if (first_row >= last_row || first_column >= last_column) return;
      const std::int64_t rows = last_row - first_row;
      const T* a = p.a + first_row * p.a_row;

      matmul_block<Out> g;
      g.rows = rows;
      g.columns = last_column - first_column;
      g.units = units;
      g.c = p.c + first_row * p.c_row + first + first_column;
      g.c_row = p.c_row;
      g.accumulate = p.accumulate;
      const std::int64_t a_start = direct_a ? rows / height * height : 0;
      scratch packed_rows(static_cast<std::size_t>(ceil_div(rows - a_start, height) * packed_a.panel));
      if (a_start < rows)
        kernels.pack_a(a + a_start * p.a_row, p.a_row, p.a_column, rows - a_start, p.k, packed_rows.data());
      if (direct_a) {
        g.a = reinterpret_cast<const char*>(a);
        g.a_layout = lying_a;
        if (a_start < rows) g.a_tail = packed_rows.as<char>();
      } else {
        g.a = packed_rows.as<char>();
        g.a_layout = packed_a;
      }
      if (direct_b) {
        g.b = reinterpret_cast<const char*>(b + first_column);
        g.b_layout = lying_b;
        if (b_panels > 0) g.b_tail = b_memory;
      } else {
        g.b = b_memory + first_column / width * packed_b.panel;
        g.b_layout = packed_b;
      }
      kernels.block(g);
    });
  }
}

/// Units of k that one pass takes. A 16-bit c is rounded after every pass, so it may have only one.
template <class T, class Out>
inline constexpr std::int64_t most_units = sizeof(Out) == unit_bytes<T> ? 1024 : 2048;

/// c (+)= a b, k > 0. Where c is the accumulator's type, k is cut so that packed panels stay in the second cache.
template <class T, class Out>
void matmul_blocked(team* cores, const matmul_kernels<T, Out>& kernels, matmul_operands<T, Out> p) {
  const std::int64_t cuts = ceil_div(p.k, most_units<T, Out> * kernels.values_per_unit);
  const std::int64_t cut = round_up(ceil_div(p.k, cuts), kernels.values_per_unit * kernels.unit_multiple);
  for (std::int64_t k = p.k; k > 0; k -= cut) {
    p.k = k < cut ? k : cut;
    matmul_cut(cores, kernels, p);
    p.a += cut * p.a_column;
    p.b += cut * p.b_row;
    p.accumulate = true;
  }
}

}  // namespace weft::cpu::detail
