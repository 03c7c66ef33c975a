// Dropout (Srivastava et al. 2014) as a kernel body. Invariant: whether an element is kept is said by the random word
// of its global index, whoever holds it.
// Of n elements:
//   dropout_kernel: 2 n T bytes, n FLOPs and a random word for each
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/backend/cuda/kernel.hpp>
#include <weft/core/random.hpp>

namespace weft::gpu {

/// y (+)= x * factor where the word of the element's index is at least `threshold`, else x * 0. In_fours: the elements
/// are in order, and the first one's word is the first of the four that a counter gives.
template <class T, bool In_fours>
struct dropout_kernel {
  static constexpr int together = In_fours || pack_size<T> < 4 ? pack_size<T> : 4;
  using A = accumulate_t<T>;
  int64 n;
  bool in_order;  // element i has the index of element 0 and i
  int64 first;
  placed_slice at;
  philox numbers;
  std::uint32_t threshold;
  A factor;
  const T* x;
  T* y;
  bool add, packed;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    const int64 line = at.ndim > 0 ? at.local[at.ndim - 1] : 1;  // neighbours here are neighbours in the whole
    for_packs_of_grid<together>(block, n, packed, [&]<int N>(int64 i) {
      const pack<T, N> in = block.template load<N>(x + i);
      pack<T, N> old{}, out;
      if (add) old = block.template load<N>(static_cast<const T*>(y) + i);
      const auto put = [&](int k, std::uint32_t word) {
        const A value = block.widen(in.at[k]) * (word >= threshold ? factor : A(0));
        out.at[k] = block.template narrow<T>(add ? block.widen(old.at[k]) + value : value);
      };
      if constexpr (In_fours && N % 4 == 0) {
        WEFT_UNROLLED for (int four = 0; four < N; four += 4) {
          const auto words = numbers.block(static_cast<std::uint64_t>((first + i + four) / 4));
          WEFT_UNROLLED for (int k = 0; k < 4; ++k) put(four + k, words[static_cast<std::size_t>(k)]);
        }
      } else {
        int64 index = 0;
        std::uint64_t counter = ~std::uint64_t{0};
        std::array<std::uint32_t, 4> words{};
        for (int k = 0; k < N; ++k) {
          index = in_order ? first + i + k : k > 0 && (i + k) % line != 0 ? index + 1 : at.global_index(i + k);
          const auto place = static_cast<std::uint64_t>(index);
          if (place / 4 != counter) words = numbers.block(counter = place / 4);
          put(k, place % 4 == 0 ? words[0] : place % 4 == 1 ? words[1] : place % 4 == 2 ? words[2] : words[3]);
        }
      }
      block.store(y + i, out);
    });
  }
};

}  // namespace weft::gpu
