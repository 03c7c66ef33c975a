// What the blocked product and its micro-kernels say to each other.
// Invariant: knows no instruction set; everything that does is reached through matmul_kernels.
//
// Words: a *unit* is what one step of a micro-kernel consumes along k: one value, or a pair of bf16. A *panel* is as
// many rows of a (columns of b) as a tile has; packed, it lies unit after unit, zeros standing in for missing rows.
#pragma once

#include <cstdint>

#include <weft/core/dtype.hpp>

namespace weft::cpu::detail {

/// Rows of packed or unpacked operands, in bytes.
struct panel_layout {
  std::int64_t element = 0;  // from one row of a (column of b) to the next
  std::int64_t unit = 0;     // from one unit to the next
  std::int64_t panel = 0;    // from one panel to the next
};

/// c[rows, columns] (+)= a[rows, units] b[units, columns], read panel by panel. If a_tail (b_tail) is set, the last,
/// incomplete panel lies there in packed form and the others lie at a (b).
template <class Out>
struct matmul_block {
  std::int64_t rows = 0, columns = 0, units = 0;
  const char *a = nullptr, *a_tail = nullptr, *b = nullptr, *b_tail = nullptr;
  panel_layout a_layout, b_layout;
  Out* c = nullptr;
  std::int64_t c_row = 0;
  bool accumulate = false;
};

/// What sizes follow from, of a family of micro-kernels.
struct matmul_tile {
  int rows, columns;
  int values_per_unit;      // 2 where the hardware multiplies pairs
  int unit_multiple;        // packed units are filled up with zeros to a multiple of this
  bool direct_a, direct_b;  // can read operands where they lie (a: units contiguous or single; b: column stride 1)
};

/// One family of micro-kernels: its tile, and its functions.
template <class T, class Out>
struct matmul_kernels : matmul_tile {
  /// Packs `count` rows of a (columns of b), `across` elements apart, of k values, `along` elements apart.
  void (*pack_a)(const T* from, std::int64_t across, std::int64_t along, std::int64_t count, std::int64_t k, void* to);
  void (*pack_b)(const T* from, std::int64_t across, std::int64_t along, std::int64_t count, std::int64_t k, void* to);
  void (*block)(const matmul_block<Out>&);
};

/// Bytes that one unit of one row takes when packed.
template <class T>
inline constexpr std::int64_t unit_bytes = sizeof(accumulate_t<T>);

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

}  // namespace weft::cpu::detail
