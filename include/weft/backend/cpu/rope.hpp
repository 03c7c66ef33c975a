// Rotary position embedding (Su et al. 2021) in the half-split pairing of Llama's Hugging Face weights.
// Invariant: elements i and i + head_dim/2 of a head turn together by the angle of their position; `inverse` turns back.
#pragma once

#include <weft/backend/cpu/common.hpp>
#include <weft/core/error.hpp>

namespace weft::cpu {

/// y (+)= x rotated; x, y [batch, seq, heads, head_dim]; cos, sin [positions, head_dim/2], position s reads row
/// first_position + s. The backward is the inverse rotation. y may be x when not adding.
template <class T>
void rope(team& workers, int64 batch, int64 seq, int64 heads, int64 head_dim, const T* x, const accumulate_t<T>* cos,
          const accumulate_t<T>* sin, int64 first_position, bool inverse, T* y, bool add) {
  using A = accumulate_t<T>;
  require(head_dim % 2 == 0, "rope pairs the halves of a head, so head_dim must be even, not ", head_dim);
  const int64 half = head_dim / 2;
  detail::for_rows(workers, batch * seq, heads * head_dim, [=](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      const A* c = cos + (first_position + row % seq) * half;
      const A* s = sin + (first_position + row % seq) * half;
      for (int64 h = 0; h < heads; ++h) {
        const int64 at = (row * heads + h) * head_dim;
        for (int64 i = 0; i < half; ++i) {
          const A a = detail::widen(x[at + i]), b = detail::widen(x[at + half + i]);
          const A sine = inverse ? -s[i] : s[i];
          detail::put(y[at + i], a * c[i] - b * sine, add);
          detail::put(y[at + half + i], b * c[i] + a * sine, add);
        }
      }
    }
  });
}

}  // namespace weft::cpu
