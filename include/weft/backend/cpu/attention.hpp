// Attention without the seq x seq matrix (Dao et al. 2022), grouped-query and causal.
// Invariant: what is kept for the backward is one number a query and head, the log of the sum of exponentials.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include <weft/backend/concept.hpp>
#include <weft/backend/cpu/common.hpp>
#include <weft/core/error.hpp>

namespace weft::cpu {

namespace detail {

inline void check(const attention_shape& s) {
  require(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "attention needs heads to be a multiple of kv_heads, not ",
          s.heads, " and ", s.kv_heads);
}

/// Number of keys that query i sees.
inline int64 visible(const attention_shape& s, int64 i) {
  if (!s.causal) return s.kv_len;
  const int64 n = i + s.kv_len - s.q_len + 1;
  return n < 0 ? 0 : n > s.kv_len ? s.kv_len : n;
}

}  // namespace detail

/// out = softmax(scale * q k^T) v; lse = log sum exp(scale * q k^T). A query that sees no key gives 0 and lse -inf.
/// q, out [batch, q_len, heads, head_dim]; k, v [batch, kv_len, kv_heads, head_dim]; lse [batch, heads, q_len]
template <class T>
void attention(team& workers, const attention_shape& s, const T* q, const T* k, const T* v, T* out,
               accumulate_t<T>* lse) {
  using A = accumulate_t<T>;
  detail::check(s);
  const int64 d = s.head_dim, share = s.heads / s.kv_heads;
  workers.parallel_for(s.batch * s.heads, [&](int64 task) {
    const int64 b = task / s.heads, h = task % s.heads;
    std::vector<A> p(static_cast<std::size_t>(s.kv_len)), sum(static_cast<std::size_t>(d));
    for (int64 i = 0; i < s.q_len; ++i) {
      const T* pq = q + ((b * s.q_len + i) * s.heads + h) * d;
      const int64 keys = detail::visible(s, i);
      A largest = -std::numeric_limits<A>::infinity(), total = 0;
      for (int64 j = 0; j < keys; ++j) {
        const T* pk = k + ((b * s.kv_len + j) * s.kv_heads + h / share) * d;
        A dot = 0;
        for (int64 c = 0; c < d; ++c) dot += detail::widen(pq[c]) * detail::widen(pk[c]);
        p[j] = dot * static_cast<A>(s.scale);
        largest = std::fmax(largest, p[j]);
      }
      for (A& x : sum) x = 0;
      for (int64 j = 0; j < keys; ++j) {
        const T* pv = v + ((b * s.kv_len + j) * s.kv_heads + h / share) * d;
        const A e = std::exp(p[j] - largest);
        total += e;
        for (int64 c = 0; c < d; ++c) sum[c] += e * detail::widen(pv[c]);
      }
      for (int64 c = 0; c < d; ++c)
        out[((b * s.q_len + i) * s.heads + h) * d + c] = detail::narrow<T>(keys ? sum[c] / total : A(0));
      lse[task * s.q_len + i] = keys ? largest + std::log(total) : -std::numeric_limits<A>::infinity();
    }
  });
}

/// Gradients of attention from its inputs, out and lse; shapes as in attention.
template <class T>
void attention_backward(team& workers, const attention_shape& s, const T* q, const T* k, const T* v, const T* out,
                        const accumulate_t<T>* lse, const T* dout, T* dq, bool add_dq, T* dk, bool add_dk, T* dv,
                        bool add_dv) {
  using A = accumulate_t<T>;
  detail::check(s);
  const int64 d = s.head_dim, share = s.heads / s.kv_heads;
  workers.parallel_for(s.batch * s.kv_heads, [&](int64 task) {
    const int64 b = task / s.kv_heads, kh = task % s.kv_heads;
    std::vector<A> gk(static_cast<std::size_t>(s.kv_len * d)), gv(gk.size()), gq(static_cast<std::size_t>(d));
    for (int64 h = kh * share; h < (kh + 1) * share; ++h)
      for (int64 i = 0; i < s.q_len; ++i) {
        const int64 at = ((b * s.q_len + i) * s.heads + h) * d;
        const A l = lse[(b * s.heads + h) * s.q_len + i];
        A delta = 0;
        for (int64 c = 0; c < d; ++c) delta += detail::widen(out[at + c]) * detail::widen(dout[at + c]);
        for (A& x : gq) x = 0;
        for (int64 j = 0; j < detail::visible(s, i); ++j) {
          const int64 kv = ((b * s.kv_len + j) * s.kv_heads + kh) * d;
          A dot = 0, dp = 0;
          for (int64 c = 0; c < d; ++c) {
            dot += detail::widen(q[at + c]) * detail::widen(k[kv + c]);
            dp += detail::widen(dout[at + c]) * detail::widen(v[kv + c]);
          }
          const A p = std::exp(dot * static_cast<A>(s.scale) - l);
          const A ds = p * (dp - delta) * static_cast<A>(s.scale);
          for (int64 c = 0; c < d; ++c) {
            gq[c] += ds * detail::widen(k[kv + c]);
            gk[j * d + c] += ds * detail::widen(q[at + c]);
            gv[j * d + c] += p * detail::widen(dout[at + c]);
          }
        }
        for (int64 c = 0; c < d; ++c) detail::put(dq[at + c], gq[c], add_dq);
      }
    for (int64 j = 0; j < s.kv_len; ++j)
      for (int64 c = 0; c < d; ++c) {
        const int64 kv = ((b * s.kv_len + j) * s.kv_heads + kh) * d + c;
        detail::put(dk[kv], gk[j * d + c], add_dk);
        detail::put(dv[kv], gv[j * d + c], add_dv);
      }
  });
}

}  // namespace weft::cpu
