// Rotary position embedding (Su et al. 2021) in the half-split pairing of Llama's Hugging Face weights.
// Invariant: elements i and i + head_dim/2 of a head turn together by the angle of their position; `inverse` turns
// back.
#pragma once

#include <weft/backend/cpu/vmath.hpp>
#include <weft/core/error.hpp>

#define WEFT_KERNELS <weft/backend/cpu/rope.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu {

namespace detail {

template <class T>
void rope_row(int64 heads, int64 half, const T* x, const accumulate_t<T>* c, const accumulate_t<T>* s,
              accumulate_t<T> direction, T* y, bool add) {
  WEFT_DISPATCH(rope_row, heads, half, x, c, s, direction, y, add);
}

}  // namespace detail

/// y (+)= x rotated; x, y [batch, seq, heads, head_dim]; cos, sin [positions, head_dim/2], position s reads row
/// first_position + s. The backward is the inverse rotation. y may be x when not adding.
template <class T>
void rope(team& workers, int64 batch, int64 seq, int64 heads, int64 head_dim, const T* x, const accumulate_t<T>* cos,
          const accumulate_t<T>* sin, int64 first_position, bool inverse, T* y, bool add) {
  require(head_dim % 2 == 0, "rope pairs the two halves of a head, so head_dim must be even, not ", head_dim, ".");
  const int64 half = head_dim / 2, width = heads * head_dim;
  const accumulate_t<T> direction = inverse ? -1 : 1;
  detail::for_rows(workers, batch * seq, width, [=](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      const int64 angle = (first_position + row % seq) * half;
      detail::rope_row(heads, half, x + row * width, cos + angle, sin + angle, direction, y + row * width, add);
    }
  });
}

}  // namespace weft::cpu
