// Weights of few bits to numbers, as a kernel body. Invariant: each operation is rounded, so the numbers are the CPU's.
// Of n elements, of codes of c bytes each; scales, of which neighbours have one, are in caches:
//   dequantise_kernel: (c + T) n bytes, 2 n FLOPs of int8, n of NF4
#pragma once

#include <utility>

#include <weft/backend/cuda/kernel.hpp>
#include <weft/backend/quantised.hpp>

namespace weft::gpu {

/// A slice that is cut along one dimension at most: `local` neighbours in a line, of which the first `valid` are the
/// whole's, where `global` are in a line and `first` before them.
struct slice_lines {
  int64 local = 1, valid = 1, global = 1, first = 0;

  /// Whether a slice is one, and which.
  bool fits(const placed_slice& at) {
    int d = at.ndim - 1;
    int64 inner = 1;
    for (; d > 0 && at.is_whole(d); --d) inner *= at.global[d];
    if (d >= 0)
      local = at.local[d] * inner, valid = at.valid[d] * inner, global = at.global[d] * inner,
      first = at.first[d] * inner;
    for (--d; d >= 0; --d)
      if (!at.is_whole(d)) return false;
    return true;
  }
  WEFT_ON_DEVICE int64 global_index(int64 i) const {
    const int64 here = i % local;
    return here < valid ? i / local * global + first + here : -1;
  }
};

/// y[i] = what code i of a slice stands for; 0 in padding. At: slice_lines, or placed_slice for any.
template <class T, class At>
struct dequantise_kernel {
  static constexpr bool lines = std::same_as<At, slice_lines>;
  static constexpr int together = lines ? pack_size<T> : 1;
  At at;
  weight_format format;
  int64 row, begin, count;
  const std::uint8_t *codes, *levels;
  const float* scales;
  T* y;
  bool packed;

  /// Whether codes lie so that a pack of them is one load.
  static bool loads_packs_of(const std::uint8_t* codes, weight_format format) {
    constexpr std::uintptr_t most = static_cast<std::uintptr_t>(together);
    return reinterpret_cast<std::uintptr_t>(codes) % (format == weight_format::nf4 ? (most + 1) / 2 : most) == 0;
  }

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for_packs_of_grid<together>(block, count, packed, [&]<int N>(int64 i) {
      const int64 place = at.global_index(begin + i);
      bool neighbours = N == 1;
      if constexpr (lines)  // in the whole, too, and of one scale
        neighbours = neighbours || ((begin + i) % at.local + N <= at.valid && place % of_scale() + N <= of_scale());
      if (neighbours)
        store<N>(block, i, place);
      else
        WEFT_ROLLED for (int k = 0; k < N; ++k) store<1>(block, i + k, at.global_index(begin + i + k));
    });
  }

 private:
  WEFT_ON_DEVICE int64 of_scale() const { return format == weight_format::int8 ? row : quantised_slice::group; }
  /// N numbers, which have one scale; `place` is that of the first in the whole.
  template <int N, class Block>
  WEFT_ON_DEVICE void store(Block& block, int64 i, int64 place) const {
    pack<T, N> out;
    const auto put = [&](int k, float number) {
      out.at[k] = block.template narrow<T>(static_cast<accumulate_t<T>>(place < 0 ? 0.0f : number));
    };
    if (format == weight_format::int8) {
      const float scale = place < 0 ? 0.0f : scales[place / row];
      const pack<std::uint8_t, N> code = block.template load<N>(codes + i);
      WEFT_UNROLLED for (int k = 0; k < N; ++k)
          put(k, static_cast<float>(static_cast<std::int8_t>(code.at[k])) * scale * (1.0f / 127));
    } else {
      float scale = 0;
      if (place >= 0)
        scale = block.rounded_product(scales[levels[i / quantised_slice::block]],
                                      scales[quantised_slice::factors + place / quantised_slice::group]) +
                scales[quantised_slice::offset];
      constexpr int bytes = (N + 1) / 2;
      const pack<std::uint8_t, bytes> code = block.template load<bytes>(codes + i / 2);
      WEFT_UNROLLED for (int k = 0; k < N; ++k) {
        const bool upper = N == 1 ? i % 2 == 0 : k % 2 == 0;
        put(k, value(upper ? code.at[k / 2] >> 4 : code.at[k / 2] & 15) * scale);
      }
    }
    block.store(y + i, out);
  }
  template <int Code>
  static constexpr float value_of = weft::detail::numbers_of_nf4().at[Code];
  /// Of the sixteen, without a table in memory.
  WEFT_ON_DEVICE static float value(int code) {
    float v = value_of<0>;
    const auto choose = [&]<int... Codes>(std::integer_sequence<int, Codes...>) {
      ((v = code == Codes + 1 ? value_of<Codes + 1> : v), ...);
    };
    choose(std::make_integer_sequence<int, 15>());
    return v;
  }
};

}  // namespace weft::gpu
