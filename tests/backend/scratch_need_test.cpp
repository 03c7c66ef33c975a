// What kernels say they take of scratch is what they take, over drawn sizes, strides, threads and instruction sets.
#include <doctest/doctest.h>

#include <weft/core/random.hpp>
#include <weft/weft.hpp>

#include "sample.hpp"

using namespace weft;
using cpu::int64;

namespace {

// Numbers drawn from a seed.
struct drawn_sizes {
  philox words;
  std::uint64_t at = 0;
  int64 in(int64 low, int64 high) { return low + static_cast<int64>(words.word(at++) % std::uint64_t(high - low + 1)); }
};

template <class F>
void on_every_level(F&& f) {
  const cpu::isa before = cpu::current_isa();
  for (int level = 0; level < 5; ++level) {
    if (!cpu::has_isa(static_cast<cpu::isa>(level))) continue;
    cpu::use_isa(static_cast<cpu::isa>(level));
    CAPTURE(cpu::name_of(cpu::current_isa()));
    f();
  }
  cpu::use_isa(before);
}

// kernel(team) on a team of its own, after another one on this thread has taken more.
template <class F>
void check_need(int threads, const cpu::scratch_need& said, F&& kernel) {
  cpu::scratch(std::size_t{1} << 22).as<char>()[0] = 0;
  cpu::team cores(threads);
  kernel(cores);
  const cpu::scratch_need took = cores.scratch_taken();
  CHECK(said.caller == took.caller);
  CHECK(said.worker == took.worker);
  CHECK(cores.scratch_bytes() == said.kept(threads));
}

template <class T, class Out>
void check_matmul(drawn_sizes& draw, int64 most_k) {
  const int64 batch = draw.in(1, 3) == 1 ? draw.in(2, 12) : 1;
  const matmul_shape s{batch, draw.in(1, draw.in(0, 1) ? 6 : 300), draw.in(1, draw.in(0, 1) ? 20 : 1200),
                       draw.in(1, most_k)};
  const int threads = static_cast<int>(draw.in(1, 3));
  const bool a_turned = draw.in(0, 1), b_turned = draw.in(0, 1), one_b = draw.in(0, 1);
  const strides sa{a_turned ? 1 : s.k, a_turned ? s.m : 1, s.m * s.k};
  const strides sb{b_turned ? 1 : s.n, b_turned ? s.k : 1, one_b ? 0 : s.k * s.n}, sc{s.n, 1, s.m * s.n};
  const std::vector<T> a(static_cast<std::size_t>(batch * s.m * s.k)), b(static_cast<std::size_t>(batch * s.k * s.n));
  std::vector<Out> c(static_cast<std::size_t>(batch * s.m * s.n));
  INFO("threads " << threads << ", "
                  << "batch " << batch << ", "
                  << "s.m " << s.m << ", "
                  << "s.n " << s.n << ", "
                  << "s.k " << s.k << ", "
                  << "a_turned " << a_turned << ", "
                  << "b_turned " << b_turned << ", "
                  << "one_b " << one_b);
  check_need(threads, cpu::matmul_scratch(threads, s, a.data(), sa, b.data(), sb, c.data(), sc, false),
             [&](cpu::team& cores) { cpu::matmul(cores, s, a.data(), sa, b.data(), sb, c.data(), sc, false); });
}

template <class T>
void check_rows(drawn_sizes& draw) {
  using A = accumulate_t<T>;
  const int threads = static_cast<int>(draw.in(1, 3));
  const int64 rows = draw.in(1, 4000), width = draw.in(1, 60), inner = draw.in(1, 2);
  const std::vector<T> x(static_cast<std::size_t>(rows * width * inner));
  std::vector<T> y(x.size());
  const std::vector<A> one(x.size());
  const std::vector<double> mean(x.size());
  const std::vector<std::int32_t> ids(x.size());
  const T* const in = x.data();
  T *const out = y.data(), *const none = nullptr;
  INFO("threads " << threads << ", "
                  << "rows " << rows << ", "
                  << "width " << width << ", "
                  << "inner " << inner);
  const auto check = [&](const cpu::scratch_need& said, auto&& kernel) { check_need(threads, said, kernel); };
  check(cpu::softmax_scratch(threads, rows, width, inner, in, out),
        [&](cpu::team& on) { cpu::softmax(on, rows, width, inner, in, out); });
  std::vector<T> first(x.size()), second(x.size());
  for (T* weight : {first.data(), none}) {
    check(cpu::rms_norm_backward_scratch(threads, rows, width, in, in, one.data(), in, out, false, weight, false),
          [&](cpu::team& on) {
            cpu::rms_norm_backward(on, rows, width, in, in, one.data(), in, out, false, weight, false);
          });
    T* const bias = weight ? second.data() : nullptr;
    check(cpu::layer_norm_backward_scratch(threads, rows, width, in, in, mean.data(), one.data(), in, out, false, none,
                                           false, bias, false),
          [&](cpu::team& on) {
            cpu::layer_norm_backward(on, rows, width, in, in, mean.data(), one.data(), in, out, false, none, false,
                                     bias, false);
          });
  }
  check(cpu::embedding_backward_scratch(threads, rows, width, ids.data(), 0, inner, in, out, false),
        [&](cpu::team& on) { cpu::embedding_backward(on, rows, width, ids.data(), 0, inner, in, out, false); });
  double sum = 0;
  check(cpu::sum_of_squares_scratch(threads, rows * width, in, &sum, false),
        [&](cpu::team& on) { cpu::sum_of_squares(on, rows * width, in, &sum, false); });
  const int64 extents[] = {rows, inner, width};
  for (const int kept : {-1, 0, 1, 2}) {
    const bool reduced[] = {kept != 0, kept != 1, kept != 2};
    check(cpu::reduce_dims_scratch<reduce::sum>(threads, 3, extents, reduced, in, out, false),
          [&](cpu::team& on) { cpu::reduce_dims<reduce::sum>(on, 3, extents, reduced, in, out, false); });
  }
}

template <class T>
void check_attention(drawn_sizes& draw) {
  using A = accumulate_t<T>;
  const int threads = static_cast<int>(draw.in(1, 3));
  const int64 share = draw.in(1, 2), kv_heads = draw.in(1, 2);
  const attention_shape s{draw.in(1, 2), draw.in(1, 300),   draw.in(1, 300), share * kv_heads, kv_heads, draw.in(1, 70),
                          0.1,           draw.in(0, 1) == 1};
  const std::size_t queries = static_cast<std::size_t>(s.batch * s.q_len * s.heads * s.head_dim);
  const std::size_t keys = static_cast<std::size_t>(s.batch * s.kv_len * s.kv_heads * s.head_dim);
  std::vector<T> q(queries), out(queries), dq(queries), k(keys), v(keys), dk(keys), dv(keys);
  std::vector<A> sums(2 * queries);
  const T *const qs = q.data(), *const ks = k.data(), *const vs = v.data();
  INFO("threads " << threads << ", "
                  << "s.batch " << s.batch << ", "
                  << "s.q_len " << s.q_len << ", "
                  << "s.kv_len " << s.kv_len << ", "
                  << "s.head_dim " << s.head_dim);
  check_need(threads, cpu::attention_scratch(threads, s, qs, ks, vs, out.data(), sums.data()),
             [&](cpu::team& on) { cpu::attention(on, s, qs, ks, vs, out.data(), sums.data()); });
  const T* const result = out.data();
  const A* const kept = sums.data();
  check_need(threads,
             cpu::attention_backward_scratch(threads, s, qs, ks, vs, result, kept, result, dq.data(), false, dk.data(),
                                             false, dv.data(), false),
             [&](cpu::team& on) {
               cpu::attention_backward(on, s, qs, ks, vs, result, kept, result, dq.data(), false, dk.data(), false,
                                       dv.data(), false);
             });
}

}  // namespace

TEST_CASE("scratch of matrix products") {
  drawn_sizes draw{philox{3, 1}};
  on_every_level([&] {
    for (int round = 0; round < weft_test::sampled(60); ++round) {
      check_matmul<float, float>(draw, round % 10 ? 200 : 3000);
      check_matmul<double, double>(draw, round % 10 ? 200 : 3000);
      check_matmul<bf16, bf16>(draw, round % 10 ? 200 : 5000);
      check_matmul<bf16, float>(draw, round % 10 ? 200 : 5000);
    }
  });
}
TEST_CASE("scratch of kernels over rows") {
  drawn_sizes draw{philox{3, 2}};
  for (int round = 0; round < weft_test::sampled(30); ++round)
    check_rows<float>(draw), check_rows<double>(draw), check_rows<bf16>(draw);
}
TEST_CASE("scratch of attention") {
  drawn_sizes draw{philox{3, 3}};
  for (int round = 0; round < weft_test::sampled(20); ++round)
    check_attention<float>(draw), check_attention<bf16>(draw);
}
TEST_CASE("scratch of a loop within a task is that of the task's thread") {
  cpu::team cores(2);
  cores.parallel_for(4, [&](std::int64_t) {
    double sum = 0;
    const std::vector<float> x(40000);
    cpu::sum_of_squares(cores, 40000, x.data(), &sum, false);
  });
  CHECK(cores.scratch_taken().caller == 0);
  CHECK(cores.scratch_taken().worker == 64);
}
