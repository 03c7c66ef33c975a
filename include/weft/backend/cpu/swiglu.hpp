// The gated unit of Shazeer (2020): silu(gate) * up, in one pass, and its backward in one pass.
// Invariant: nothing is saved but gate and up.
#pragma once

#include <cmath>

#include <weft/backend/cpu/common.hpp>

namespace weft::cpu {

/// y = silu(gate) * up, n elements each.
template <class T>
void swiglu(team& workers, int64 n, const T* gate, const T* up, T* y) {
  using A = accumulate_t<T>;
  detail::for_blocks(workers, n, detail::block_elements, [=](int64 begin, int64 end) {
    for (int64 i = begin; i < end; ++i) {
      const A g = detail::widen(gate[i]);
      y[i] = detail::narrow<T>(g / (1 + std::exp(-g)) * detail::widen(up[i]));
    }
  });
}

/// dgate (+)= dy * up * silu'(gate), dup (+)= dy * silu(gate). dgate may be gate, and dup may be up or dy.
template <class T>
void swiglu_backward(team& workers, int64 n, const T* gate, const T* up, const T* dy, T* dgate, bool add_gate, T* dup,
                     bool add_up) {
  using A = accumulate_t<T>;
  detail::for_blocks(workers, n, detail::block_elements, [=](int64 begin, int64 end) {
    for (int64 i = begin; i < end; ++i) {
      const A g = detail::widen(gate[i]), u = detail::widen(up[i]), d = detail::widen(dy[i]);
      const A s = 1 / (1 + std::exp(-g));
      detail::put(dgate[i], d * u * s * (1 + g * (1 - s)), add_gate);
      detail::put(dup[i], d * g * s, add_up);
    }
  });
}

}  // namespace weft::cpu
