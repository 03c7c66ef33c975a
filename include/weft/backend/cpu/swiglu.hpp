// The gated unit of Shazeer (2020): silu(gate) * up, in one pass, and its backward in one pass.
// Invariant: nothing is saved but gate and up.
#pragma once

#include <weft/backend/cpu/vmath.hpp>

#define WEFT_KERNELS <weft/backend/cpu/swiglu.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu {

namespace detail {

template <class T>
void swiglu_block(int64 n, const T* gate, const T* up, T* y) {
  WEFT_DISPATCH(swiglu_block, n, gate, up, y);
}
template <class T>
void swiglu_backward_block(int64 n, const T* gate, const T* up, const T* dy, T* dgate, bool add_gate, T* dup,
                           bool add_up) {
  WEFT_DISPATCH(swiglu_backward_block, n, gate, up, dy, dgate, add_gate, dup, add_up);
}

}  // namespace detail

/// y = silu(gate) * up, n elements each; y may be gate or up.
template <class T>
void swiglu(team& workers, int64 n, const T* gate, const T* up, T* y) {
  detail::for_blocks(workers, n, detail::block_elements, [=](int64 begin, int64 end) {
    detail::swiglu_block(end - begin, gate + begin, up + begin, y + begin);
  });
}

/// dgate (+)= dy * up * silu'(gate), dup (+)= dy * silu(gate). Not adding, dgate may be gate, and dup may be up or dy.
template <class T>
void swiglu_backward(team& workers, int64 n, const T* gate, const T* up, const T* dy, T* dgate, bool add_gate, T* dup,
                     bool add_up) {
  detail::for_blocks(workers, n, detail::block_elements, [=](int64 begin, int64 end) {
    detail::swiglu_backward_block(end - begin, gate + begin, up + begin, dy + begin, dgate + begin, add_gate,
                                  dup + begin, add_up);
  });
}

}  // namespace weft::cpu
