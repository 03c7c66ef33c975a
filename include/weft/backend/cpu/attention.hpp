// Attention without the seq x seq matrix (Dao et al. 2022), grouped-query and causal: the forward.
// Invariant: what is kept for the backward is two numbers a query and head, the largest score and the log of the sum of
// exponentials under it, which are not added up: beside a large score the sum would lose the log's digits.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/backend/cpu/softmax.hpp>
#include <weft/core/error.hpp>

namespace weft::cpu {

namespace detail {

inline constexpr int64 attention_chunk = 256;  // queries of one task
inline constexpr int64 attention_keys = 128;   // keys packed at a time

/// Elements between packed rows: head_dim rounded up to two of the widest vectors.
constexpr int64 attention_width(int64 head_dim) { return (head_dim + 31) / 32 * 32; }

constexpr int64 attention_chunks(const attention_shape& s) { return (s.q_len + attention_chunk - 1) / attention_chunk; }
/// Elements that one task of the forward takes.
constexpr int64 attention_elements(const attention_shape& s) {
  return (attention_width(s.head_dim) + 1 + 8) * 2 * (attention_chunk + attention_keys);
}

inline void check(const attention_shape& s) {
  require(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "attention: heads must be a multiple of kv_heads, but they are ",
          s.heads, " and ", s.kv_heads, ".");
}

}  // namespace detail
}  // namespace weft::cpu

#define WEFT_KERNELS <weft/backend/cpu/attention.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu {

namespace detail {

template <class T>
void attention_task(const attention_shape& s, int64 begin, int64 n, const T* q, const T* k, const T* v, T* out,
                    accumulate_t<T>* high, accumulate_t<T>* log_sum, accumulate_t<T>* memory) {
  WEFT_DISPATCH(attention_task, s, begin, n, q, k, v, out, high, log_sum, memory);
}

}  // namespace detail

/// out = softmax(scale * q k^T) v; sums: of each query the largest score, scale * q k^T, and the log of the sum of
/// exp(score - largest). A query that sees no key gives 0, -infinity and 0. q, out [batch, q_len, heads, head_dim]; k,
/// v [batch, kv_len, kv_heads, head_dim]; sums [2, batch, heads, q_len]
template <class T>
void attention(team& workers, const attention_shape& s, const T* q, const T* k, const T* v, T* out,
               accumulate_t<T>* sums) {
  detail::check(s);
  const int64 d = s.head_dim, share = s.heads / s.kv_heads;
  const int64 chunks = detail::attention_chunks(s), elements = detail::attention_elements(s);
  const detail::using_stack own(workers.stack());
  workers.parallel_for(s.batch * s.heads * chunks, [&](int64 task) {
    const int64 chunk = chunks - 1 - task % chunks, b = task / chunks / s.heads, h = task / chunks % s.heads;
    const int64 begin = chunk * detail::attention_chunk, left = s.q_len - begin;
    const int64 at = ((b * s.q_len + begin) * s.heads + h) * d, kv = (b * s.kv_len * s.kv_heads + h / share) * d;
    const scratch memory(static_cast<std::size_t>(elements) * sizeof(accumulate_t<T>));
    accumulate_t<T>* const high = sums + (b * s.heads + h) * s.q_len + begin;
    detail::attention_task(s.of_row(b), begin, left < detail::attention_chunk ? left : detail::attention_chunk, q + at,
                           k + kv, v + kv, out + at, high, high + s.batch * s.heads * s.q_len,
                           memory.as<accumulate_t<T>>());
  });
}
/// What that call takes of scratch on a team of so many threads.
template <class T>
scratch_need attention_scratch(int threads, const attention_shape& s, const T*, const T*, const T*, T*,
                               accumulate_t<T>*) {
  return detail::loop_need(threads, s.batch * s.heads * detail::attention_chunks(s),
                           detail::scratch_lines(detail::attention_elements(s), sizeof(accumulate_t<T>)));
}

}  // namespace weft::cpu
