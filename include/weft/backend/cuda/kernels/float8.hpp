// Operands of products in 8 bits: the largest magnitude, and the codes under its scale, laid out as the tensor cores
// take them; as kernel bodies. Invariant: a magnitude is compared as bits, so NaN is the largest, and no order of the
// parts matters.
// Of n elements:
//   largest_magnitude_kernel: n T bytes, 0 FLOPs
//   float8_codes_kernel: n T + n bytes, n FLOPs
#pragma once

#include <weft/backend/cuda/kernels/reduce.hpp>
#include <weft/backend/cuda/kernels/strided.hpp>
#include <weft/core/float8.hpp>

namespace weft::gpu {

/// parts[block] = the bits of the largest magnitude among a block's elements.
template <class T>
struct largest_magnitude_kernel {
  strided_loop<1> loop;
  const T* x;
  std::uint32_t* parts;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    std::uint32_t largest = 0;
    const auto see = [&]<int N>(int64 i) {
      array_of<int64, 1> at;
      loop.offsets(i, at);
      const pack<T, N> in = loop.template load<N>(block, 0, x + at[0]);
      for (int k = 0; k < N; ++k)
        largest = join<reduce::max>(largest, weft::detail::bits_of(block.widen(in.at[k])) & 0x7fffffffu);
    };
    const int64 first = block.index() * block.threads() + block.thread(), step = block.blocks() * block.threads();
    for (int64 i = first; i < loop.n; i += step) {
      if (loop.neighbours > 1)
        see.template operator()<pack_size<T>>(i);
      else
        see.template operator()<1>(i);
    }
    largest = block_reduce<reduce::max>(block, largest, block.template shared<std::uint32_t>());
    if (block.thread() == 0) parts[block.index()] = largest;
  }
};

/// A matrix of numbers as codes of 8 bits, row by row; and what undoes their scale, at `undo`.
/// x [rows, columns] at these distances, codes [rows, columns], parts [count] as largest_magnitude_kernel leaves them.
template <class T>
struct float8_codes_kernel {
  static constexpr int each = 16;  // codes of a row that a thread makes: what one store takes
  float8_form form;
  int64 rows, columns;
  const T* x;
  int64 row, column;
  const std::uint32_t* parts;
  int64 count;
  std::uint8_t* codes;
  float* undo;
  bool packed;  // a row's numbers are neighbours, and can be loaded 16 bytes at a time

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    std::uint32_t largest = 0;
    for (int64 i = block.thread(); i < count; i += block.threads()) largest = join<reduce::max>(largest, parts[i]);
    largest = block_reduce<reduce::max>(block, largest, block.template shared<std::uint32_t>());
    const float scale = weft::detail::float8_scale(form, weft::detail::floats_of(largest));
    if (block.index() == 0 && block.thread() == 0) *undo = weft::detail::undoing(scale);
    // Where a row lies together, neighbouring threads take what follows each other in it. Else two take 32 codes of a
    // row, the least that is stored at once, and the next two the next row's, which lie beside those that they read.
    const bool by_rows = column == 1;
    const int64 of_row = columns / each, pairs = (of_row + 1) / 2, n = rows * (by_rows ? of_row : 2 * pairs);
    const int64 first = block.index() * block.threads() + block.thread();
    for (int64 i = first; i < n; i += block.blocks() * block.threads()) {
      const int64 r = by_rows ? i / of_row : i / 2 % rows;
      const int64 c = each * (by_rows ? i % of_row : i / 2 / rows * 2 + i % 2);
      if (c >= columns) continue;
      const T* const from = x + r * row + c * column;
      pack<std::uint8_t, each> out;
      const auto put = [&](int k, T v) { out.at[k] = weft::detail::float8_code(form, block.widen(v) * scale); };
      if (packed) {
        WEFT_UNROLLED
        for (int k = 0; k < each; k += pack_size<T>) {
          const auto in = block.template load<pack_size<T>>(from + k);
          for (int j = 0; j < pack_size<T>; ++j) put(k + j, in.at[j]);
        }
      } else {
        WEFT_UNROLLED
        for (int k = 0; k < each; ++k) put(k, from[k * column]);
      }
      block.store_whole(codes + r * columns + c, out);
    }
  }
};

}  // namespace weft::gpu
