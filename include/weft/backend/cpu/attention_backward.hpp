// Attention without the seq x seq matrix (Dao et al. 2022), grouped-query and causal: the backward.
// Invariant: one task makes all of dk and dv of a key/value head, in the order of queries, whatever the team.
#pragma once

#include <weft/backend/cpu/attention.hpp>

namespace weft::cpu::detail {
inline constexpr int64 attention_block = 64;  // queries, and keys, of one block of the backward
/// Elements that one task of the backward takes.
constexpr int64 attention_backward_elements(const attention_shape& s) {
  const int64 block = attention_block, width = attention_width(s.head_dim);
  const int64 padded = (s.kv_len + block - 1) / block * block;
  return 5 * padded * width + 3 * block * width + 2 * block * block + 3 * block;
}
}  // namespace weft::cpu::detail

#define WEFT_KERNELS <weft/backend/cpu/attention_backward.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu {

namespace detail {

template <class T>
void attention_backward_task(const attention_shape& s, const T* q, const T* k, const T* v, const T* out,
                             const accumulate_t<T>* high, const accumulate_t<T>* log_sum, const T* dout, T* dq,
                             bool add_dq, T* dk, bool add_dk, T* dv, bool add_dv, accumulate_t<T>* memory) {
  WEFT_DISPATCH(attention_backward_task, s, q, k, v, out, high, log_sum, dout, dq, add_dq, dk, add_dk, dv, add_dv,
                memory);
}

}  // namespace detail

/// Gradients of attention from its inputs, `out` and `sums`; shapes as in attention. Each thread that works needs
/// scratch memory for five times kv_len * head_dim numbers.
template <class T>
void attention_backward(team& workers, const attention_shape& s, const T* q, const T* k, const T* v, const T* out,
                        const accumulate_t<T>* sums, const T* dout, T* dq, bool add_dq, T* dk, bool add_dk, T* dv,
                        bool add_dv) {
  detail::check(s);
  const int64 d = s.head_dim, share = s.heads / s.kv_heads, elements = detail::attention_backward_elements(s);
  const detail::using_stack own(workers.stack());
  workers.parallel_for(s.batch * s.kv_heads, [&](int64 task) {
    const int64 b = task / s.kv_heads, h = task % s.kv_heads;
    const int64 at = (b * s.q_len * s.heads + h * share) * d, kv = (b * s.kv_len * s.kv_heads + h) * d;
    const scratch memory(static_cast<std::size_t>(elements) * sizeof(accumulate_t<T>));
    const accumulate_t<T>* const high = sums + (b * s.heads + h * share) * s.q_len;
    detail::attention_backward_task(s.of_row(b), q + at, k + kv, v + kv, out + at, high,
                                    high + s.batch * s.heads * s.q_len, dout + at, dq + at, add_dq, dk + kv, add_dk,
                                    dv + kv, add_dv, memory.as<accumulate_t<T>>());
  });
}
/// What that call takes of scratch on a team of so many threads.
template <class T>
scratch_need attention_backward_scratch(int threads, const attention_shape& s, const T*, const T*, const T*, const T*,
                                        const accumulate_t<T>*, const T*, T*, bool, T*, bool, T*, bool) {
  return detail::loop_need(threads, s.batch * s.kv_heads,
                           detail::scratch_lines(detail::attention_backward_elements(s), sizeof(accumulate_t<T>)));
}

}  // namespace weft::cpu
