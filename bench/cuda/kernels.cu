// Times the kernels of cuda_backend, one row each, beside the speed of a copy in the same run; torch_kernels.py times
// PyTorch's at the same sizes. Invariant: bytes and operations are what the task needs at least, not what the kernel
// does: attention's are those below the diagonal.
//   nvcc -O2 -std=c++20 --expt-relaxed-constexpr --extended-lambda -diag-suppress=3001 -arch=sm_90a -Iinclude
//     bench/cuda/kernels.cu -o bench_cuda_kernels -lcublasLt
//   ./bench_cuda_kernels [copy|elementwise|norms|rows|training|attention|matmul]
#include <weft/testing/backend/attention.hpp>

#include "timing.cuh"

namespace {

using namespace bench;
using weft::unary, weft::binary;
namespace law = weft::testing::detail::kernels;

constexpr int64 rows = 16384, width = 4096, all = rows * width;  // 128 MiB in bf16
constexpr double n = static_cast<double>(all);
const auto unseen = [] { return true; };  // laws_test.cu looks at what comes out

std::string size_of(int64 a, int64 b, const char* type = "bf16") {
  return std::to_string(a) + " x " + std::to_string(b) + " " + type;
}
bool near(double got, double want, double relative, double absolute) {
  return std::fabs(got - want) <= relative * std::fabs(want) + absolute;
}

void copies(table& t) {
  const array<bf16> x(all, 1), y(all);
  t.time("copy", size_of(rows, width), {4 * n}, BENCH_CALL(B::copy_bytes(q, x.in(s), y[s], 2 * all)), unseen, y);
}

void elementwise(table& t) {
  const array<bf16> gate(all, 1, -4, 4), up(all, 2), dy(all, 3), y(all), z(all);
  const std::string size = size_of(rows, width);
  const auto silu_up = [&] {
    const auto g = gate.host(0, 4096), u = up.host(0, 4096), out = y.host(0, 4096);
    bool right = true;
    for (std::size_t i = 0; i < g.size(); ++i)
      right = right && near(out[i], g[i] / (1 + std::exp(-g[i])) * u[i], 0x1p-8, 1e-6);
    return right;
  };
  t.time("add", size, {6 * n}, BENCH_CALL(B::apply(q, binary::add, all, gate.in(s), up.in(s), y[s])), unseen, y);
  t.time("swiglu", size, {6 * n}, BENCH_CALL(B::swiglu(q, all, gate.in(s), up.in(s), y[s])), silu_up, y);
  t.time("swiglu backward", size, {10 * n},
         BENCH_CALL(B::swiglu_backward(q, all, gate.in(s), up.in(s), dy.in(s), y[s], false, z[s], false)), unseen, y,
         z);
  t.time("gelu", size, {4 * n}, BENCH_CALL(B::template apply<unary::gelu>(q, all, gate.in(s), y[s])), unseen, y);
  t.time("gelu backward", size, {6 * n},
         BENCH_CALL(B::template apply_backward<unary::gelu>(q, all, gate.in(s), dy.in(s), y[s], false)), unseen, y);
  const array<float> wide(all);
  t.time("convert to fp32", size, {6 * n}, BENCH_CALL(B::convert(q, all, gate.in(s), wide[s], false)), unseen, wide);
  const weft::dropout_mask mask{0.1, 1, 2};
  const weft::placed_slice whole{2, {rows, width}, {rows, width}, {0, 0}, {rows, width}};
  t.time("dropout", size, {4 * n}, BENCH_CALL(B::dropout(q, mask, whole, gate.in(s), y[s], false)), unseen, y);
  const int64 seq = 4096, heads = 16, head_dim = 128, batch = all / (seq * heads * head_dim);
  const array<float> cos(seq * head_dim / 2, 4), sin(seq * head_dim / 2, 5);
  t.time("rope", "8 x 4096 x 16 x 128 bf16", {4 * n},
         BENCH_CALL(
             B::rope(q, batch, seq, heads, head_dim, gate.in(s), cos.in(s), sin.in(s), int64{0}, false, y[s], false)),
         unseen, y);
}

void norms(table& t) {
  for (const int64 columns : {width, int64{768}}) {
    const int64 lines = all / columns, here = lines * columns;
    const double n = static_cast<double>(here);
    const std::string size = size_of(lines, columns);
    const array<bf16> x(here, 1), w(columns, 2), bias(columns, 3), dy(here, 4), y(here);
    const array<float> rstd(lines), dw(columns), db(columns);
    const array<double> mean(lines);
    const auto normed = [&] {
      const auto in = x.host(columns, columns), weight = w.host(0, columns), out = y.host(columns, columns);
      double squares = 0;
      for (const double v : in) squares += v * v;
      bool right = true;
      for (std::size_t i = 0; i < in.size(); ++i)
        right = right && near(out[i], in[i] / std::sqrt(squares / columns + 1e-5) * weight[i], 0x1p-8, 1e-5);
      return right;
    };
    t.time("rms_norm", size, {4 * n}, BENCH_CALL(B::rms_norm(q, lines, columns, 1e-5, x.in(s), w.in(s), y[s], rstd[s])),
           normed, y, rstd);
    t.time("rms_norm backward", size, {6 * n},
           BENCH_CALL(B::rms_norm_backward(q, lines, columns, x.in(s), w.in(s), rstd.in(s), dy.in(s), y[s], false,
                                           dw[s], false)),
           unseen, y, dw);
    t.time("layer_norm", size, {4 * n},
           BENCH_CALL(B::layer_norm(q, lines, columns, 1e-5, x.in(s), w.in(s), bias.in(s), y[s], mean[s], rstd[s])),
           unseen, y, mean, rstd);
    t.time("layer_norm backward", size, {6 * n},
           BENCH_CALL(B::layer_norm_backward(q, lines, columns, x.in(s), w.in(s), mean.in(s), rstd.in(s), dy.in(s),
                                             y[s], false, dw[s], false, db[s], false)),
           unseen, y, dw, db);
  }
}

void of_rows(table& t) {
  {
    const array<bf16> x(all, 1, -8, 8), dy(all, 2), y(all), dx(all);
    const std::string size = size_of(rows, width);
    t.time("softmax", size, {4 * n}, BENCH_CALL(B::softmax(q, rows, width, int64{1}, x.in(s), y[s])), unseen, y);
    t.time("softmax backward", size, {6 * n},
           BENCH_CALL(B::softmax_backward(q, rows, width, int64{1}, y.in(s), dy.in(s), dx[s], false)), unseen, dx);
  }
  const int64 tokens = 8192, vocab = 50304;
  const double logits = static_cast<double>(tokens * vocab);
  const std::string size = size_of(tokens, vocab);
  const array<bf16> x(tokens * vocab, 1, -4, 4), dx(tokens * vocab);
  const array<std::int32_t> ids(tokens, 2, 0, static_cast<double>(vocab));
  const array<float> m(tokens), exps(tokens), logit(tokens), log_sum(tokens), loss(1), count(1), g(tokens, 3, 0, 1e-4);
  float* const none = nullptr;
  const float* const zero = nullptr;
  t.time("row_max", size, {2 * logits}, BENCH_CALL(B::row_max(q, tokens, vocab, x.in(s), m[s], vocab)), unseen, m);
  t.time(
      "row_sums", size, {2 * logits},
      BENCH_CALL(B::row_sums(q, tokens, vocab, x.in(s), int64{0}, ids.in(s), m.in(s), exps[s], logit[s], none, vocab)),
      unseen, exps, logit);
  const auto forward =
      BENCH_CALL((B::row_max(q, tokens, vocab, x.in(s), m[s], vocab),
                  B::row_sums(q, tokens, vocab, x.in(s), int64{0}, ids.in(s), m.in(s), exps[s], logit[s], none, vocab),
                  B::row_loss(q, tokens, ids.in(s), m.in(s), exps.in(s), logit.in(s), zero, 0.0, vocab, log_sum[s],
                              loss[s], count[s])));
  // The logits' exponentials average sinh(4) / 4, and the targets' logits 0.
  const auto loss_is_near = [&] {
    return near(loss.host(0, 1)[0] / tokens, std::log(static_cast<double>(vocab) * std::sinh(4.0) / 4), 0, 0.1);
  };
  t.time("cross entropy", size, {2 * logits}, forward, loss_is_near, m, exps, logit, log_sum, loss, count);
  t.time("cross entropy backward", size, {4 * logits},
         BENCH_CALL(B::cross_entropy_backward(q, tokens, vocab, x.in(s), int64{0}, ids.in(s), m.in(s), log_sum.in(s),
                                              g.in(s), 0.0, vocab, dx[s], vocab)),
         unseen, dx);
}

void training(table& t) {
  {
    const int64 vocab = 50304;
    const double rest = static_cast<double>(vocab * width);
    const array<bf16> rows_of(vocab * width, 1), dy(all, 2), y(all), gradient(vocab * width);
    const array<std::int32_t> ids(rows, 3, 0, static_cast<double>(vocab));
    const std::string size = size_of(rows, width) + " of " + std::to_string(vocab);
    t.time("embedding", size, {4 * n},
           BENCH_CALL(B::embedding(q, rows, width, ids.in(s), int64{0}, vocab, rows_of.in(s), y[s])), unseen, y);
    t.time("embedding backward", size, {2 * n + 2 * rest},
           BENCH_CALL(B::embedding_backward(q, rows, width, ids.in(s), int64{0}, vocab, dy.in(s), gradient[s], false)),
           unseen, gradient);
    const array<float> sum(vocab * width);
    t.time("embedding backward, fp32", size, {2 * n + 4 * rest},
           BENCH_CALL(B::embedding_backward(q, rows, width, ids.in(s), int64{0}, vocab, dy.in(s), sum[s], false)),
           unseen, sum);
  }
  const array<float> master(all, 1), first(all, 2), second(all, 3, 0, 1), g(all, 4);
  const array<bf16> working(all);
  const array<double> squares(1);
  const std::string size = size_of(rows, width, "fp32");
  const weft::adamw_step step{1e-3, 0.9, 0.95, 1e-8, 0.1, 0.1, 0.05, 1};
  t.time("adamw", size, {30 * n},
         BENCH_CALL(
             B::adamw(q, step, all, weft::decay_ranges::all(all), master[s], first[s], second[s], g.in(s), working[s])),
         unseen, working);
  t.time(
      "sum_of_squares", size, {4 * n}, BENCH_CALL(B::sum_of_squares(q, all, g.in(s), squares[s], false)),
      [&] { return near(squares.host(0, 1)[0], n / 3, 1e-3, 0); }, squares);
}

// A head of one sequence against the definition in double: its last 64 queries, and the keys that no others see.
bool attention_is_right(const weft::attention_shape& s, const array<bf16>& q, const array<bf16>& k,
                        const array<bf16>& v, const array<bf16>& dy, const array<bf16>& got, bool of_keys) {
  const int64 part = 64, d = s.head_dim, line = s.heads * d, tail = (s.q_len - part) * line, head = 3 * d;
  const auto last = [&](const array<bf16>& x) { return x.host(tail + head, d, part, line); };
  const law::attention_numbers want =
      law::exact_attention({1, part, s.kv_len, 1, 1, d, s.scale, true}, last(q), k.host(head, d, s.kv_len, line),
                           v.host(head, d, s.kv_len, line), last(dy));
  const auto numbers = last(got);
  const law::doubles all_keys = of_keys ? want.dk : want.out;
  double off = 0, size = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double exact = all_keys[all_keys.size() - numbers.size() + i];
    off += std::pow(numbers[i] - exact, 2), size += exact * exact;
  }
  return off <= 0x1p-12 * size;  // of the numbers' norm 2^-6; probabilities and outputs are rounded to 2^-8
}

void attention(table& t) {
  for (const int64 d : {64, 96, 128, 256}) {
    const int64 batch = 4, seq = 4096, heads = 16, elements = batch * seq * heads * d;
    const weft::attention_shape shape{batch, seq, seq, heads, heads, d, 1 / std::sqrt(static_cast<double>(d)), true};
    const array<bf16> q_(elements, 1), k(elements, 2), v(elements, 3), dy(elements, 4), out(elements), dq(elements),
        dk(elements), dv(elements);
    const array<float> sums(2 * batch * heads * seq);
    const std::string size = "4 x 4096 x 16 x " + std::to_string(d) + " causal bf16";
    const double operations = 2.0 * static_cast<double>(seq) * static_cast<double>(elements);
    t.time(
        "attention", size, {0, operations},
        BENCH_CALL(B::attention(q, shape, q_.in(s), k.in(s), v.in(s), out[s], sums[s])),
        [&] { return attention_is_right(shape, q_, k, v, dy, out, false); }, out, sums);
    t.time(
        "attention backward", size, {0, 2.5 * operations},
        BENCH_CALL(B::attention_backward(q, shape, q_.in(s), k.in(s), v.in(s), out.in(s), sums.in(s), dy.in(s), dq[s],
                                         false, dk[s], false, dv[s], false)),
        [&] { return attention_is_right(shape, q_, k, v, dy, dk, true); }, dq, dk, dv);
  }
}

void products(table& t) {
  for (const int64 m : {4096, 8192}) {
    const array<bf16> a(m * m, 1), b(m * m, 2), c(m * m);
    const array<float> sum(m * m);
    const double operations = 2.0 * static_cast<double>(m) * static_cast<double>(m) * static_cast<double>(m);
    const std::string size = std::to_string(m) + "^3 bf16";
    const auto corner = [&] {
      const auto x = a.host(m, m), y = b.host(2 * m, m);
      double sum = 0;
      for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
      return near(c.host(m + 2, 1)[0], sum, 0x1p-8, 1e-3);
    };
    const weft::matmul_shape shape{1, m, m, m};
    t.time("matmul x w'", size, {0, operations},
           BENCH_CALL(B::matmul(q, shape, a.in(s), {m, 1}, b.in(s), {1, m}, c[s], {m, 1}, false)), corner, c);
    t.time("matmul x w", size, {0, operations},
           BENCH_CALL(B::matmul(q, shape, a.in(s), {m, 1}, b.in(s), {m, 1}, c[s], {m, 1}, false)), unseen, c);
    t.time("matmul x' dy, to fp32", size, {0, operations},
           BENCH_CALL(B::matmul(q, shape, a.in(s), {1, m}, b.in(s), {m, 1}, sum[s], {m, 1}, false)), unseen, sum);
  }
}

}  // namespace

int main(int arguments, char** argument) {
  try {
    table t(arguments > 1 ? argument[1] : "");
    copies(t);
    if (t.wants("elementwise")) elementwise(t);
    if (t.wants("norms")) norms(t);
    if (t.wants("rows")) of_rows(t);
    if (t.wants("training")) training(t);
    if (t.wants("attention")) attention(t);
    if (t.wants("matmul")) products(t);
    return t.failed() > 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "kernels: %s\n", e.what());
    return 1;
  }
}
