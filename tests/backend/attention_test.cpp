// Attention and its gradients against the definition in double, and against finite differences.
#include <weft/backend/cpu/attention_backward.hpp>

#include "kernel_testing.hpp"

using namespace testing;
using weft::attention_shape;

namespace {

struct result {
  doubles out, lse, dq, dk, dv;
};

/// The definition, one query at a time.
result exact(const attention_shape& s, const doubles& q, const doubles& k, const doubles& v, const doubles& dout) {
  result r;
  r.out.resize(q.size()), r.dq.resize(q.size()), r.dk.resize(k.size()), r.dv.resize(v.size());
  r.lse.resize(static_cast<std::size_t>(s.batch * s.heads * s.q_len));
  const int64 d = s.head_dim;
  for (int64 b = 0; b < s.batch; ++b)
    for (int64 h = 0; h < s.heads; ++h)
      for (int64 i = 0; i < s.q_len; ++i) {
        const int64 qi = ((b * s.q_len + i) * s.heads + h) * d, kh = h / (s.heads / s.kv_heads);
        const auto kj = [&](int64 j) { return ((b * s.kv_len + j) * s.kv_heads + kh) * d; };
        int64 seen = s.causal ? i + s.kv_len - s.q_len + 1 : s.kv_len;
        seen = seen < 0 ? 0 : seen > s.kv_len ? s.kv_len : seen;
        doubles p;
        double largest = -INFINITY, total = 0;
        for (int64 j = 0; j < seen; ++j) {
          double dot = 0;
          for (int64 c = 0; c < d; ++c) dot += q[qi + c] * k[kj(j) + c];
          p.push_back(dot * s.scale), largest = std::fmax(largest, p.back());
        }
        for (double& x : p) x = std::exp(x - largest), total += x;
        r.lse[(b * s.heads + h) * s.q_len + i] = seen ? largest + std::log(total) : -INFINITY;
        double mean = 0;
        doubles dp;
        for (int64 j = 0; j < seen; ++j) {
          p[j] /= total;
          dp.push_back(0);
          for (int64 c = 0; c < d; ++c) {
            r.out[qi + c] += p[j] * v[kj(j) + c];
            dp.back() += dout[qi + c] * v[kj(j) + c];
            r.dv[kj(j) + c] += p[j] * dout[qi + c];
          }
          mean += p[j] * dp.back();
        }
        for (int64 j = 0; j < seen; ++j)
          for (int64 c = 0; c < d; ++c) {
            const double ds = p[j] * (dp[j] - mean) * s.scale;
            r.dq[qi + c] += ds * k[kj(j) + c];
            r.dk[kj(j) + c] += ds * q[qi + c];
          }
      }
  return r;
}

int64 q_size(const attention_shape& s) { return s.batch * s.q_len * s.heads * s.head_dim; }
int64 kv_size(const attention_shape& s) { return s.batch * s.kv_len * s.kv_heads * s.head_dim; }

const attention_shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1.0, true},       {2, 7, 7, 3, 3, 5, 0.4, true},        {1, 70, 70, 4, 2, 16, 0.25, true},
    {1, 130, 200, 2, 1, 40, 0.15, true}, {1, 300, 300, 1, 1, 64, 0.125, true}, {2, 65, 31, 2, 2, 33, 0.2, false},
    {1, 40, 17, 2, 1, 8, 0.3, true},     {1, 3, 290, 6, 3, 20, 0.2, true},     {1, 64, 129, 2, 2, 128, 0.09, false},
};

/// The error as a whole: |got - want| <= relative * |want| in the Euclidean norm. Tighter than the worst case of an
/// element.
template <class T>
void check_norm(const std::vector<T>& got, const doubles& want, double relative) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
    size += want[i] * want[i];
  }
  CHECK(std::sqrt(difference) <= relative * std::sqrt(size) + 1e-300);
}

doubles plus(const doubles& a, const doubles& b) {
  doubles sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  return sum;
}

}  // namespace

TEST_CASE_TEMPLATE("attention and its gradients", T, double, float, bf16, fp16) {
  using A = weft::accumulate_t<T>;
  for (const attention_shape& s : shapes) {
    INFO("q_len " << s.q_len << " kv_len " << s.kv_len << " head_dim " << s.head_dim);
    const auto q = numbers<T>(q_size(s), 1), k = numbers<T>(kv_size(s), 2), v = numbers<T>(kv_size(s), 3);
    const auto dout = numbers<T>(q_size(s), 4), old_q = numbers<T>(q_size(s), 5), old_kv = numbers<T>(kv_size(s), 6);
    const result want = exact(s, widened(q), widened(k), widened(v), widened(dout));
    on_every_isa([&](team& t) {
      std::vector<T> out(q.size()), dq(q.size()), dk(k.size()), dv(v.size());
      std::vector<T> dq_added = old_q, dk_added = old_kv, dv_added = old_kv;
      std::vector<A> lse(want.lse.size());
      weft::cpu::attention(t, s, q.data(), k.data(), v.data(), out.data(), lse.data());
      // A score adds head_dim products of at most 4 * scale, so it is good to 4 * scale * head_dim roundings; e^score
      // and what averages it inherit that relative error, times values up to 2.
      const double score = 4 * s.scale * static_cast<double>(s.head_dim + 4) * sum_rounding<T>;
      const double average = 4 * score + 32 * sum_rounding<T>;
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < lse.size(); ++i)
        wrong +=
            std::isinf(want.lse[i])
                ? lse[i] != want.lse[i]
                : !(std::fabs(lse[i] - want.lse[i]) <= 2 * score + 16 * sum_rounding<T> * (1 + std::fabs(want.lse[i])));
      CHECK(wrong == 0);
      check_close(out, want.out, rounding<T>, average);
      weft::cpu::attention_backward(t, s, q.data(), k.data(), v.data(), out.data(), lse.data(), dout.data(), dq.data(),
                                    false, dk.data(), false, dv.data(), false);
      weft::cpu::attention_backward(t, s, q.data(), k.data(), v.data(), out.data(), lse.data(), dout.data(),
                                    dq_added.data(), true, dk_added.data(), true, dv_added.data(), true);
      // ds = p * (dp - delta): dp and delta are sums of head_dim products up to 4, and delta reads `out` as rounded to
      // T. Sums over queries (dk, dv) add the error of every query, weighted by p; over keys the weights add to 1.
      const double dp = 4 * static_cast<double>(s.head_dim + 4) * (score + 8 * sum_rounding<T>);
      const double delta = static_cast<double>(s.head_dim) * 4 * (sizeof(T) == 2 ? rounding<T> : sum_rounding<T>);
      const double dq_error = 2 * s.scale * (dp + delta) + 16 * sum_rounding<T>;
      // Rows of p that add to 1 meet in few keys only where keys are few: at most 1 + share * q_len / kv_len on
      // average, 8 times that for the uneven ones (the causal beginning).
      const double meet = 8 * (1 + static_cast<double>(s.heads / s.kv_heads * s.q_len) / static_cast<double>(s.kv_len));
      const double dkv_error = meet * dq_error + 8 * meet * average;
      check_close(dq, want.dq, rounding<T>, dq_error);
      check_close(dk, want.dk, rounding<T>, dkv_error);
      check_close(dv, want.dv, rounding<T>, 8 * meet * average);
      // Roundings are random: each result carries one rounding to T (dq and dk also that of `out`, in delta), about
      // half of the worst case, and float sums of up to 300 terms.
      const double norm = rounding<T> + 64 * sum_rounding<T>;
      check_norm(out, want.out, norm);
      if (s.kv_len > 1) check_norm(dq, want.dq, 2 * norm);  // with one key dq and dk are zero
      if (s.kv_len > 1) check_norm(dk, want.dk, 2 * norm);
      check_norm(dv, want.dv, norm);
      check_close(dq_added, plus(want.dq, widened(old_q)), rounding<T>, dq_error + 4 * sum_rounding<T>);
      check_close(dk_added, plus(want.dk, widened(old_kv)), rounding<T>, dkv_error + 4 * sum_rounding<T>);
      check_close(dv_added, plus(want.dv, widened(old_kv)), rounding<T>, 8 * meet * average + 4 * sum_rounding<T>);
      out.insert(out.end(), dq.begin(), dq.end());
      out.insert(out.end(), dk.begin(), dk.end());
      out.insert(out.end(), dv.begin(), dv.end());
      return out;
    });
  }
}

TEST_CASE("attention gradients agree with finite differences") {
  const attention_shape s{1, 6, 8, 4, 2, 5, 0.4, true};
  std::vector<double> in[3] = {numbers<double>(q_size(s), 7), numbers<double>(kv_size(s), 8),
                               numbers<double>(kv_size(s), 9)};
  const auto dout = numbers<double>(q_size(s), 10);
  team t;
  std::vector<double> out(in[0].size()), lse(24), grad[3] = {in[0], in[1], in[2]};
  const auto loss = [&] {
    std::vector<double> y(out.size()), l(24);
    weft::cpu::attention(t, s, in[0].data(), in[1].data(), in[2].data(), y.data(), l.data());
    double total = 0;
    for (std::size_t i = 0; i < y.size(); ++i) total += y[i] * dout[i];
    return total;
  };
  weft::cpu::attention(t, s, in[0].data(), in[1].data(), in[2].data(), out.data(), lse.data());
  weft::cpu::attention_backward(t, s, in[0].data(), in[1].data(), in[2].data(), out.data(), lse.data(), dout.data(),
                                grad[0].data(), false, grad[1].data(), false, grad[2].data(), false);
  for (int which = 0; which < 3; ++which) {
    doubles slope;
    for (double& x : in[which]) {
      const double middle = x;
      x = middle + 1e-5;
      const double up = loss();
      x = middle - 1e-5;
      slope.push_back((up - loss()) / 2e-5);
      x = middle;
    }
    check_close(grad[which], slope, 1e-8, 1e-8);  // 1e-10 of truncation, 1e-14 / 1e-5 of rounding
  }
}

TEST_CASE("attention passes NaN on and refuses heads that do not divide") {
  attention_shape s{1, 2, 2, 1, 1, 4, 1.0, true};
  std::vector<float> q(8, 1.0f), k(8, 1.0f), v(8, 1.0f), out(8), lse(2);
  k[4] = NAN;  // key 1, seen by query 1 only
  team t;
  weft::cpu::attention(t, s, q.data(), k.data(), v.data(), out.data(), lse.data());
  CHECK(out[0] == 1);
  CHECK(std::isnan(out[4]));
  s.heads = 3, s.kv_heads = 2;
  CHECK_THROWS_AS(weft::cpu::attention(t, s, q.data(), k.data(), v.data(), out.data(), lse.data()), weft::failure);
}
