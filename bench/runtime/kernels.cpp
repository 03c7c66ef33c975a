// Times the fused kernels: bytes over time for those that stream, floating-point operations over time for attention.
//   g++ -std=c++20 -O2 -Iinclude bench/runtime/kernels.cpp -o kernels -pthread && ./kernels [threads] [elements]
// Bytes are those of every array once, read or written. Each figure is the best of seven runs. WEFT_ISA chooses the
// instruction set.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <weft/backend/cpu/kernels.hpp>

namespace {

using namespace weft;
using namespace weft::cpu;

template <class F>
double seconds(F f) {
  f();
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

template <class T>
std::vector<T> numbers(int64 n) {
  std::vector<T> out(static_cast<std::size_t>(n));
  std::uint32_t state = 1;
  for (T& x : out) {
    state = state * 1664525u + 1013904223u;
    x = T(static_cast<float>(static_cast<int>(state >> 8) - (1 << 23)) * 0x1p-22f);
  }
  return out;
}

template <class T>
void time_attention(team& t, bool causal) {
  const attention_shape s{8, 256, 256, 6, 6, 64, 0.125, causal};
  const int64 n = s.batch * s.q_len * s.heads * s.head_dim;
  const auto q = numbers<T>(n), k = numbers<T>(n), v = numbers<T>(n), dout = numbers<T>(n);
  auto out = q, dq = q, dk = q, dv = q;
  std::vector<float> lse(static_cast<std::size_t>(s.batch * s.heads * s.q_len));
  const double forward = seconds([&] { attention(t, s, q.data(), k.data(), v.data(), out.data(), lse.data()); });
  const double backward = seconds([&] {
    attention_backward(t, s, q.data(), k.data(), v.data(), out.data(), lse.data(), dout.data(), dq.data(), false,
                       dk.data(), false, dv.data(), false);
  });
  // Two products forward and five backward; a causal mask leaves half.
  const double flop = 4.0 * static_cast<double>(s.heads * s.head_dim * s.batch * s.q_len * s.kv_len) / (causal ? 2 : 1);
  std::printf("attention %-5s %-6s forward %7.3f ms %6.1f GFLOP/s   backward %7.3f ms %6.1f GFLOP/s\n",
              name_of(dtype_of<T>), causal ? "causal" : "full", forward * 1e3, flop / forward * 1e-9, backward * 1e3,
              2.5 * flop / backward * 1e-9);
}

template <class T>
void time_streams(team& t, int64 n) {
  const int64 width = 768, rows = n / width, vocabulary = 32768, tokens = n / vocabulary;
  const auto a = numbers<T>(n), b = numbers<T>(n);
  auto c = numbers<T>(n), d = c, e = c, weight = numbers<T>(width), column = weight;
  std::vector<float> rstd(static_cast<std::size_t>(rows)), turn(static_cast<std::size_t>(rows * 32), 0.5f);
  std::vector<float> m(static_cast<std::size_t>(tokens)), sums = m, logit = m, master(static_cast<std::size_t>(n)),
                                                          m1 = master, m2 = master;
  const std::vector<std::int32_t> targets(static_cast<std::size_t>(tokens), 5);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(rows));
  for (int64 i = 0; i < rows; ++i) ids[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * 7919 % 1000);
  std::vector<T> table(static_cast<std::size_t>(1000 * width));
  const auto report = [&](const char* what, double bytes_each, auto f) {
    const double s = seconds(f);
    std::printf("  %-22s %8.3f ms %7.2f GB/s\n", what, s * 1e3, bytes_each * static_cast<double>(n) / s * 1e-9);
  };
  const double z = sizeof(T);
  std::printf("%s, %ld elements\n", name_of(dtype_of<T>), static_cast<long>(n));
  report("memcpy", 2 * z,
         [&] { std::memcpy(static_cast<void*>(c.data()), a.data(), static_cast<std::size_t>(n) * sizeof(T)); });
  report("add", 3 * z, [&] { apply(t, binary::add, n, a.data(), b.data(), c.data()); });
  report("exp", 2 * z, [&] { apply<unary::exp>(t, n, a.data(), c.data()); });
  report("gelu", 2 * z, [&] { apply<unary::gelu>(t, n, a.data(), c.data()); });
  report("swiglu", 3 * z, [&] { swiglu(t, n, a.data(), b.data(), c.data()); });
  report("swiglu backward", 5 * z,
         [&] { swiglu_backward(t, n, a.data(), b.data(), c.data(), d.data(), false, e.data(), false); });
  report("rms_norm 768", 2 * z,
         [&] { rms_norm(t, rows, width, 1e-5, a.data(), weight.data(), c.data(), rstd.data()); });
  report("rms_norm backward", 3 * z, [&] {
    rms_norm_backward(t, rows, width, a.data(), weight.data(), rstd.data(), b.data(), c.data(), false, column.data(),
                      false);
  });
  report("rope 12 x 64", 2 * z,
         [&] { rope(t, 1, rows, 12, 64, a.data(), turn.data(), turn.data(), 0, false, c.data(), false); });
  report("softmax 768", 2 * z, [&] { softmax(t, rows, width, 1, a.data(), c.data()); });
  report("row_max 32768", z, [&] { row_max(t, tokens, vocabulary, a.data(), m.data()); });
  report("row_sums 32768", z,
         [&] { row_sums(t, tokens, vocabulary, a.data(), 0, targets.data(), m.data(), sums.data(), logit.data()); });
  report("cross_entropy_backward", 2 * z, [&] {
    cross_entropy_backward(t, tokens, vocabulary, a.data(), 0, targets.data(), m.data(), sums.data(), 0.0, vocabulary,
                           c.data());
  });
  report("sum_of_squares", z, [&] {
    volatile double total = sum_of_squares(t, n, a.data());
    static_cast<void>(total);
  });
  const int64 plane[2] = {rows, width}, turned[2] = {width, rows}, x_turned[2] = {1, width}, y_turned[2] = {rows, 1};
  const bool over_rows[2] = {true, false};
  report("sum over rows", z,
         [&] { reduce_dims<weft::reduce::sum>(t, 2, plane, over_rows, a.data(), column.data(), false); });
  const int64 heads[4] = {rows / 256, 12, 256, 64};
  const int64 by_seq[4] = {256 * 768, 64, 768, 1}, by_head[4] = {256 * 768, 256 * 64, 64, 1};
  report("copy seq <-> heads", 2 * z, [&] { copy(t, 4, heads, a.data(), by_seq, c.data(), by_head, false); });
  report("copy transposed", 2 * z, [&] { copy(t, 2, turned, a.data(), x_turned, c.data(), y_turned, false); });
  report("embedding", 2 * z, [&] { embedding(t, rows, width, ids.data(), 0, 1000, table.data(), c.data()); });
  report("embedding backward", z,
         [&] { embedding_backward(t, rows, width, ids.data(), 0, 1000, a.data(), table.data(), true); });
  const adamw_step step{1e-3, 0.9, 0.95, 1e-8, 0.1, 0.1, 0.05, 1.0};
  report("adamw", 24 + 2 * z, [&] { adamw(t, step, n, master.data(), m1.data(), m2.data(), a.data(), c.data()); });
}

}  // namespace

int main(int arguments, char** argument) {
  team t(arguments > 1 ? std::atoi(argument[1]) : 1);
  const int64 n = arguments > 2 ? std::atol(argument[2]) : int64{1} << 23;
  std::printf("%s, %d thread(s)\n", name_of(current_isa()), t.size());
  for (const bool causal : {true, false}) {
    time_attention<float>(t, causal);
    time_attention<bf16>(t, causal);
  }
  time_streams<float>(t, n);
  time_streams<bf16>(t, n);
}
