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

/// How one cut of k is multiplied: what is packed, and what of it is in memory at once.
struct matmul_cuts {
  std::int64_t m, height, width, units, panels;
  std::int64_t a_panel, b_panel;  // bytes of one, packed
  bool direct_a, direct_b;        // whole panels are read where they lie

  static constexpr std::int64_t most_columns = 1024;  // of b packed at a time
  static constexpr std::int64_t most_a = 512 << 10;   // bytes of packed a per task: stays in the second cache

  /// Bytes of b's columns that are packed.
  constexpr std::int64_t b_bytes(std::int64_t columns) const {
    return (direct_b ? columns % width != 0 : ceil_div(columns, width)) * b_panel;
  }
  /// Tasks: blocks of rows, and groups of columns where rows alone would not keep a team busy.
  struct grid {
    std::int64_t blocks, groups;
  };
  constexpr grid tasks(std::int64_t columns, std::int64_t threads) const {
    const std::int64_t most_panels = most_a / a_panel < 1 ? 1 : most_a / a_panel,
                       blocks = ceil_div(panels, most_panels);
    if (threads <= 1) return {blocks, 1};
    if (panels >= 8 * threads) return {round_up(blocks, threads), 1};
    return {blocks, threads < ceil_div(columns, width) ? threads : ceil_div(columns, width)};
  }
  /// Bytes of a's rows that a task packs, at most.
  constexpr std::int64_t a_bytes(const grid& g) const {
    return (direct_a ? m % height != 0 : ceil_div(panels, g.blocks)) * a_panel;
  }
  /// Of a product of n columns.
  constexpr scratch_need need(std::int64_t n, int threads) const {
    scratch_need all;
    for (const std::int64_t columns : {n < most_columns ? n : most_columns, n % most_columns}) {
      if (columns == 0) continue;
      const grid g = tasks(columns, threads);
      all.join(
          loop_need(threads, g.blocks * g.groups, scratch_lines(a_bytes(g), 1), scratch_lines(b_bytes(columns), 1)));
    }
    return all;
  }
};

template <class T, class Out>
matmul_cuts cuts_of(const matmul_tile& tile, const matmul_operands<T, Out>& p) {
  const std::int64_t units = round_up(ceil_div(p.k, tile.values_per_unit), tile.unit_multiple);
  const bool whole_units = p.k % tile.values_per_unit == 0;
  const bool a_fits = tile.values_per_unit == 1 || (p.a_column == 1 && whole_units);
  return {p.m,
          tile.rows,
          tile.columns,
          units,
          ceil_div(p.m, tile.rows),
          unit_bytes<T> * tile.rows * units,
          unit_bytes<T> * tile.columns * units,
          tile.direct_a && a_fits && p.n <= 4 * tile.columns,
          tile.direct_b && p.b_column == 1 && p.m <= 6 * tile.rows};
}

/// Both operands as the kernels want them, for one cut of k.
template <class T, class Out>
void matmul_cut(team* cores, const matmul_kernels<T, Out>& kernels, const matmul_operands<T, Out>& p) {
  constexpr std::int64_t unit = unit_bytes<T>, most_columns = matmul_cuts::most_columns;
  const matmul_cuts cuts = cuts_of(kernels, p);
  const std::int64_t height = cuts.height, width = cuts.width, units = cuts.units, panels = cuts.panels;
  const bool direct_a = cuts.direct_a, direct_b = cuts.direct_b;
  const panel_layout packed_a{unit, unit * height, cuts.a_panel};
  const panel_layout packed_b{unit, unit * width, cuts.b_panel};
  const std::int64_t a_unit = p.a_column * kernels.values_per_unit;
  const panel_layout lying_a{p.a_row * std::int64_t{sizeof(T)}, a_unit * std::int64_t{sizeof(T)},
                             p.a_row * height * std::int64_t{sizeof(T)}};
  const panel_layout lying_b{unit, p.b_row * unit, width * unit};

  for (std::int64_t first = 0; first < p.n; first += most_columns) {
    const std::int64_t columns = p.n - first < most_columns ? p.n - first : most_columns;
    const T* b = p.b + first * p.b_column;
    const std::int64_t b_panels = cuts.b_bytes(columns) / packed_b.panel;
    const std::int64_t b_start = direct_b ? columns / width * width : 0;  // the first column that is packed
    scratch packed(static_cast<std::size_t>(cuts.b_bytes(columns)));
    char* const b_memory = packed.as<char>();
    const std::int64_t at_once = ceil_div(8192, units) < 1 ? 1 : ceil_div(8192, units);  // panels a packing task
    team::share(cores, ceil_div(b_panels, at_once), [&](std::int64_t task) {
      const std::int64_t from = b_start + task * at_once * width;
      const std::int64_t count = columns - from < at_once * width ? columns - from : at_once * width;
      kernels.pack_b(b + from * p.b_column, p.b_column, p.b_row, count, p.k,
                     b_memory + task * at_once * packed_b.panel);
    });

    const matmul_cuts::grid grid = cuts.tasks(columns, cores ? cores->size() : 1);
    const std::int64_t blocks = grid.blocks, groups = grid.groups, a_bytes = cuts.a_bytes(grid);
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
      scratch packed_rows(static_cast<std::size_t>(a_bytes));
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

/// How much of k one pass takes.
template <class T, class Out>
constexpr std::int64_t pass_of(const matmul_tile& tile, std::int64_t k) {
  const std::int64_t passes = ceil_div(k, most_units<T, Out> * tile.values_per_unit);
  return round_up(ceil_div(k, passes), tile.values_per_unit * tile.unit_multiple);
}

/// c (+)= a b, k > 0. Where c is the accumulator's type, k is cut so that packed panels stay in the second cache.
template <class T, class Out>
void matmul_blocked(team* cores, const matmul_kernels<T, Out>& kernels, matmul_operands<T, Out> p) {
  const std::int64_t pass = pass_of<T, Out>(kernels, p.k);
  for (std::int64_t k = p.k; k > 0; k -= pass) {
    p.k = k < pass ? k : pass;
    matmul_cut(cores, kernels, p);
    p.a += pass * p.a_column;
    p.b += pass * p.b_row;
    p.accumulate = true;
  }
}
/// What that takes of scratch on a team of so many threads.
template <class T, class Out>
scratch_need blocked_need(int threads, const matmul_tile& tile, matmul_operands<T, Out> p) {
  const std::int64_t k = p.k, pass = pass_of<T, Out>(tile, k);
  scratch_need all;
  for (const std::int64_t part : {k < pass ? k : pass, k % pass})
    if ((p.k = part) > 0) all.join(cuts_of(tile, p).need(p.n, threads));
  return all;
}

}  // namespace weft::cpu::detail
