// Laws of a backend's attention and rotary embedding, forward and backward.
// Invariant: compared with the definition in double, one query at a time.
#pragma once

#include <algorithm>
#include <limits>

#include <weft/testing/backend/bench.hpp>

namespace weft::testing {
namespace detail::kernels {

struct attention_numbers {
  doubles out, high, log_sum, dq, dk, dv;
};
inline attention_numbers exact_attention(const attention_shape& s, const doubles& q, const doubles& k, const doubles& v,
                                         const doubles& dout) {
  attention_numbers r;
  r.out.resize(q.size()), r.dq.resize(q.size()), r.dk.resize(k.size()), r.dv.resize(v.size());
  const int64 d = s.head_dim;
  for (int64 row = 0; row < s.batch * s.heads * s.q_len; ++row) {
    const int64 i = row % s.q_len, h = row / s.q_len % s.heads, b = row / s.q_len / s.heads;
    const auto query = [&](int64 c) { return at(((b * s.q_len + i) * s.heads + h) * d + c); };
    const auto key = [&](int64 j, int64 c) {
      return at(((b * s.kv_len + j) * s.kv_heads + h / (s.heads / s.kv_heads)) * d + c);
    };
    const int64 seen = s.causal ? std::clamp<int64>(i + s.kv_len - s.q_len + 1, 0, s.kv_len) : s.kv_len;
    const int64 in_window = s.window > 0 ? std::max<int64>(seen - s.window, 0) : 0;
    const int64 first = s.documents ? std::max<int64>(in_window, s.documents[b * s.q_len + i]) : in_window;
    doubles p(at(seen)), dp(at(seen));
    double largest = -INFINITY, total = 0, mean = 0;
    for (int64 j = first; j < seen; ++j) {
      for (int64 c = 0; c < d; ++c) p[at(j)] += s.scale * q[query(c)] * k[key(j, c)];
      largest = std::fmax(largest, p[at(j)]);
    }
    for (int64 j = first; j < seen; ++j) p[at(j)] = std::exp(p[at(j)] - largest), total += p[at(j)];
    r.high.push_back(largest), r.log_sum.push_back(seen ? std::log(total) : 0);
    for (int64 j = first; j < seen; ++j) {
      p[at(j)] /= total;
      for (int64 c = 0; c < d; ++c) {
        r.out[query(c)] += p[at(j)] * v[key(j, c)];
        dp[at(j)] += dout[query(c)] * v[key(j, c)];
        r.dv[key(j, c)] += p[at(j)] * dout[query(c)];
      }
      mean += p[at(j)] * dp[at(j)];
    }
    for (int64 j = first; j < seen; ++j)
      for (int64 c = 0; c < d; ++c) {
        const double ds = p[at(j)] * (dp[at(j)] - mean) * s.scale;
        r.dq[query(c)] += ds * k[key(j, c)];
        r.dk[key(j, c)] += ds * q[query(c)];
      }
  }
  return r;
}

/// Whether a backend says that it rounds attention's weights and their gradients to T before it multiplies them with
/// rows, as tensor cores need them. Then the bounds are wider by what that can do.
template <class B>
constexpr bool rounds_weights() {
  if constexpr (requires { B::rounds_attention_weights; })
    return B::rounds_attention_weights;
  else
    return false;
}

/// Whether a backend says that its attention keeps the log of the sum of exponentials as one number: then `sums` have
/// any two that add to it.
template <class B>
constexpr bool joins_sums() {
  if constexpr (requires { B::joins_attention_sums; })
    return B::joins_attention_sums;
  else
    return false;
}

/// Where the document of each query begins, [batch, q_len]: documents of these lengths, again and again, each row one
/// further; nothing where there are none.
inline std::vector<std::int32_t> starts_of(const attention_shape& s, const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> starts;
  for (int64 b = 0; !lengths.empty() && b < s.batch; ++b) {
    std::size_t next = at(b) % lengths.size();
    for (std::int32_t begin = 0; begin < s.q_len; begin += lengths[next++ % lengths.size()])
      for (std::int32_t i = begin; i < std::min<int64>(s.q_len, begin + lengths[next % lengths.size()]); ++i)
        starts.push_back(begin);
  }
  return starts;
}

struct attention_case {
  attention_shape sizes;
  std::vector<std::int32_t> documents = {};  // their lengths
};
inline std::vector<attention_case> attention_cases() {
  return {{{1, 1, 1, 1, 1, 1, 1.0, true}},
          {{2, 7, 7, 3, 3, 5, 0.4, true}},
          {{1, 70, 70, 4, 2, 16, 0.25, true}},
          {{1, 130, 200, 2, 1, 40, 0.15, true}},
          {{2, 65, 31, 2, 2, 33, 0.2, false}},
          {{1, 40, 17, 2, 1, 8, 0.3, true}},
          {{1, 3, 290, 6, 3, 20, 0.2, true}},
          {{1, 300, 300, 4, 2, 16, 0.25, true, 37}},
          {{2, 7, 7, 2, 1, 8, 0.3, true, 1}},
          {{1, 9, 11, 2, 1, 8, 0.3, true, std::numeric_limits<int64>::max()}},
          {{1, 200, 520, 2, 2, 24, 0.2, true, 256}},
          {{1, 100, 140, 4, 2, 64, 0.12, true, 50}},
          {{1, 64, 129, 2, 2, 128, 0.09, false}},
          {{1, 17, 70, 1, 1, 96, 0.1, true}},
          {{1, 9, 40, 1, 1, 256, 0.06, false}},
          {{2, 9, 9, 2, 1, 8, 0.3, true}, {1}},
          {{3, 11, 11, 4, 2, 5, 0.4, true}, {3, 1, 2}},
          {{1, 300, 300, 2, 1, 16, 0.25, true}, {1, 130, 2, 70, 64}},
          {{1, 192, 192, 2, 2, 24, 0.2, true}, {64, 128}},
          {{2, 70, 70, 2, 1, 33, 0.2, true, 20}, {5, 50, 1}},
          {{2, 140, 140, 2, 1, 64, 0.12, true}, {33, 64, 1, 20}},
          {{1, 100, 100, 2, 1, 128, 0.09, true, 30}, {7, 60, 40}},
          {{1, 20, 20, 2, 1, 96, 0.1, true}, {15, 3}},
          {{1, 34, 34, 1, 1, 256, 0.06, true, 20}, {5, 60}}};
}

template <class T, class B>
void attentions(bench<B>& b, const std::vector<attention_case>& cases = attention_cases()) {
  using A = accumulate_t<T>;
  constexpr bool there = attention_kernels<B, T>;
  if (!b.has(there, "attention", dtype_of<T>)) return;
  if constexpr (there)
    for (const attention_case& one : cases) {
      attention_shape s = one.sizes;
      const std::vector<std::int32_t> starts = starts_of(s, one.documents);
      if (!starts.empty()) s.documents = starts.data();
      const int64 queries = s.batch * s.q_len * s.heads * s.head_dim,
                  keys = s.batch * s.kv_len * s.kv_heads * s.head_dim;
      const auto q = numbers<T>(queries, 1), k = numbers<T>(keys, 2), v = numbers<T>(keys, 3),
                 dy = numbers<T>(queries, 4);
      const attention_numbers want = exact_attention(s, widened(q), widened(k), widened(v), widened(dy));
      const buffer<B, std::int32_t> documents(b, starts);
      if (!starts.empty()) s.documents = documents.in();
      const buffer<B, T> bq(b, q), bk(b, k), bv(b, v), bdy(b, dy), out(b, queries), rest_q(b, queries), rest_k(b, keys),
          rest_v(b, keys);
      const buffer<B, A> sums(b, static_cast<int64>(2 * want.high.size()));
      B::attention(b.queue(), s, bq.in(), bk.in(), bv.in(), out.out(), sums.out());
      // A score adds head_dim products of at most 4 * scale, so it is good to 4 * scale * head_dim roundings; e^score
      // and what averages it inherit that relative error, times values up to 2.
      const double score = 4 * s.scale * static_cast<double>(s.head_dim + 4) * sum_rounding<T>;
      // Weights that are rounded to T are each off by that much of themselves, and so is what averages values up to 2.
      const double weights = sizeof(T) == 2 && rounds_weights<B>() ? rounding<T> : 0;
      const double average = 4 * score + 32 * sum_rounding<T> + 2 * weights;
      auto both = sums.host();
      doubles kept = want.high;
      if (joins_sums<B>()) {
        for (std::size_t i = 0; i < kept.size(); ++i) kept[i] += want.log_sum[i], both[i] += both[i + kept.size()];
      } else {
        kept.insert(kept.end(), want.log_sum.begin(), want.log_sum.end());
      }
      b.near("largest scores, and logs of the sums", both, kept, 16 * sum_rounding<T>,
             (joins_sums<B>() ? 4 : 2) * score + 16 * sum_rounding<T>);
      b.near("output", out.host(), want.out, rounding<T>, average);
      // ds = p (dp - delta): dp and delta are sums of head_dim products up to 4, and delta may read `out` as rounded to
      // T. Where ds is rounded, it is off by that much of p (dp - delta), which is two sums of head_dim products. Sums
      // over queries (dk, dv) add every query's error, weighted by p: rows that add to 1 meet in few keys only where
      // keys are few, at most 1 + share * q_len / kv_len on average, 8 times that for uneven ones (causal).
      const double dp = 4 * static_cast<double>(s.head_dim + 4) * (score + 8 * sum_rounding<T>);
      const double delta = static_cast<double>(s.head_dim) * 4 * (sizeof(T) == 2 ? rounding<T> : sum_rounding<T>);
      const double slopes = 8 * static_cast<double>(s.head_dim) * weights;
      const double dq_error = 2 * s.scale * (dp + delta + slopes) + 16 * sum_rounding<T>;
      const double meet = 8 * (1 + static_cast<double>(s.heads / s.kv_heads * s.q_len) / static_cast<double>(s.kv_len));
      const auto back = [&](T* dq, bool add_q, T* dk, bool add_k, T* dv, bool add_v) {
        B::attention_backward(b.queue(), s, bq.in(), bk.in(), bv.in(), out.in(), sums.in(), bdy.in(), dq, add_q, dk,
                              add_k, dv, add_v);
      };
      T *const uq = rest_q.out(), *const uk = rest_k.out(), *const uv = rest_v.out();
      writes_and_adds<T>(b, "dq", want.dq, rounding<T>, dq_error,
                         [&](T* d, bool add) { back(d, add, uk, false, uv, false); });
      writes_and_adds<T>(b, "dk", want.dk, rounding<T>, meet * (dq_error + 8 * average),
                         [&](T* d, bool add) { back(uq, false, d, add, uv, false); });
      writes_and_adds<T>(b, "dv", want.dv, rounding<T>, 8 * meet * average,
                         [&](T* d, bool add) { back(uq, false, uk, false, d, add); });
      // As a whole the error is far smaller: each result carries one rounding to T (dq also that of `out`), and sums of
      // up to 300 terms; and rounded weights, or their gradients, are off by as much again, each on its own, so that
      // their errors add up as the terms do.
      const auto whole = [&](const char* what, const std::vector<T>& got, const doubles& exact, double allowed) {
        double off = 0, size = 0;
        for (std::size_t i = 0; i < got.size(); ++i)
          off += std::pow(static_cast<double>(got[i]) - exact[i], 2), size += exact[i] * exact[i];
        b.must(std::sqrt(off) <= allowed * std::sqrt(size) + 1e-300, what, " is off by ", std::sqrt(off / size),
               " of its size");
      };
      const double norm = rounding<T> + weights + 64 * sum_rounding<T>;
      whole("the output", out.host(), want.out, norm);
      whole("dv", rest_v.host(), want.dv, norm);
      if (s.kv_len > 1 && s.window != 1 && one.documents != std::vector<std::int32_t>{1})
        whole("dk", rest_k.host(), want.dk, 2 * norm);  // of a query that sees one key it is zero
    }
}

template <class T, class B>
void rotations(bench<B>& b) {
  using A = accumulate_t<T>;
  constexpr bool there = rope_kernel<B, T>;
  if (!b.has(there, "rope", dtype_of<T>)) return;
  if constexpr (there) {
    struct size {
      int64 batch, seq, heads, head_dim;
    };
    for (const size& s : {size{1, 1, 1, 2}, {2, 5, 3, 10}, {3, 17, 2, 64}, {1, 40, 6, 128}})
      for (const bool inverse : {false, true}) {
        const int64 half = s.head_dim / 2, first = 3, all = s.batch * s.seq * s.heads * s.head_dim;
        std::vector<A> cosines, sines;
        for (int64 i = 0; i < (s.seq + first) * half; ++i) {
          const double angle =
              static_cast<double>(i / half) * std::pow(1e4, -static_cast<double>(i % half) / static_cast<double>(half));
          cosines.push_back(static_cast<A>(std::cos(angle))), sines.push_back(static_cast<A>(std::sin(angle)));
        }
        const auto x = numbers<T>(all, 1);
        doubles y(x.size());
        for (int64 i = 0; i < all / 2; ++i) {  // the pair (c, c + half) of one head
          const int64 head = i / half, c = i % half, position = head / s.heads % s.seq;
          const std::size_t low = at(head * s.head_dim + c), high = at(head * s.head_dim + c + half);
          const std::size_t angle = at((first + position) * half + c);
          const double cosine = static_cast<double>(cosines[angle]);
          const double sine = (inverse ? -1 : 1) * static_cast<double>(sines[angle]);
          y[low] = static_cast<double>(x[low]) * cosine - static_cast<double>(x[high]) * sine;
          y[high] = static_cast<double>(x[high]) * cosine + static_cast<double>(x[low]) * sine;
        }
        const buffer<B, T> in(b, x), in_place(b, x);
        const buffer<B, A> c(b, cosines), sn(b, sines);
        const auto turn = [&](const T* from, T* to, bool add) {
          B::rope(b.queue(), s.batch, s.seq, s.heads, s.head_dim, from, c.in(), sn.in(), first, inverse, to, add);
        };
        // Two products of at most 2, each rounded, then their sum (and the old value).
        writes_and_adds<T>(b, inverse ? "turned back" : "turned", y, rounding<T>, 24 * sum_rounding<T>,
                           [&](T* to, bool add) { turn(in.in(), to, add); });
        turn(in_place.in(), in_place.out(), false);
        b.near("in place", in_place.host(), y, rounding<T>, 24 * sum_rounding<T>);
      }
  }
}

}  // namespace detail::kernels

/// The laws of `attention`, `attention_backward` and `rope` of backend B, for element types Ts. Throws weft::failure
/// with the first kernel that is wrong.
template <class B, class... Ts>
backend_report check_attention_kernels(int threads = 1) {
  return detail::kernels::each_type<B, Ts...>(threads, []<class T>(auto& b) {
    detail::kernels::attentions<T>(b);
    detail::kernels::rotations<T>(b);
  });
}

}  // namespace weft::testing
