// Attention on the kernels of the CUDA backend, run on the host: against the CPU's, over element types, shapes, tiles,
// alignments and orders of threads.
#include <backend/kernel_testing.hpp>
#include <sample.hpp>

#include <weft/backend/cpu/attention_backward.hpp>
#include <weft/backend/cuda/words/attention.hpp>

#include "host_queue.hpp"

using namespace weft_test;
using weft::accumulate_t;
using weft::attention_shape;

namespace {

using words = weft::gpu::attention_words<host_queue>;

int64 q_size(const attention_shape& s) { return s.batch * s.q_len * s.heads * s.head_dim; }
int64 kv_size(const attention_shape& s) { return s.batch * s.kv_len * s.kv_heads * s.head_dim; }

// s with documents of these lengths, again and again.
struct in_documents {
  in_documents(attention_shape sizes, std::vector<int64> lengths) : s(sizes) {
    for (int64 b = 0; b < s.batch; ++b) {
      std::size_t next = static_cast<std::size_t>(b);
      for (int64 begin = 0, n = 0; begin < s.q_len; begin += n) {
        n = lengths[next++ % lengths.size()];
        starts.insert(starts.end(), static_cast<std::size_t>(std::min(n, s.q_len - begin)),
                      static_cast<std::int32_t>(begin));
      }
    }
    s.documents = starts.data();
  }
  // s whose last query's document begins behind that query, which sees its own key all the same.
  explicit in_documents(attention_shape sizes) : in_documents(sizes, {sizes.q_len}) { starts.back() = 500; }
  in_documents(const in_documents&) = delete;
  attention_shape s;
  std::vector<std::int32_t> starts;
};

template <class T>
struct results {
  std::vector<T> out, dq, dk, dv;
  std::vector<accumulate_t<T>> sums;
};

// Forward and backward of one set of numbers, `skip` elements behind an aligned address. Gradients are added to `old`
// where `add`.
template <class T, class Run>
results<T> run_attention(const attention_shape& s, int64 skip, int add, Run&& run) {
  const auto placed = [&](int64 n, std::uint64_t seed) {
    auto x = numbers<T>(n, seed);
    x.insert(x.begin(), static_cast<std::size_t>(skip), T());
    return x;
  };
  auto q = placed(q_size(s), 1), k = placed(kv_size(s), 2), v = placed(kv_size(s), 3), dout = placed(q_size(s), 4);
  results<T> r{placed(q_size(s), 5), placed(q_size(s), 6), placed(kv_size(s), 7), placed(kv_size(s), 8), {}};
  r.sums.resize(static_cast<std::size_t>(2 * s.batch * s.heads * s.q_len));
  run.forward(s, q.data() + skip, k.data() + skip, v.data() + skip, r.out.data() + skip, r.sums.data());
  run.backward(s, q.data() + skip, k.data() + skip, v.data() + skip, r.out.data() + skip, r.sums.data(),
               dout.data() + skip, r.dq.data() + skip, (add & 1) != 0, r.dk.data() + skip, (add & 2) != 0,
               r.dv.data() + skip, (add & 4) != 0);
  return r;
}
struct on_cpu {
  team cores = team(1);
  template <class... Args>
  void forward(const Args&... args) {
    weft::cpu::attention(cores, args...);
  }
  template <class... Args>
  void backward(const Args&... args) {
    weft::cpu::attention_backward(cores, args...);
  }
};
struct on_cuda {
  host_queue queue;
  template <class... Args>
  void forward(const Args&... args) {
    words::attention(queue, args...);
  }
  template <class... Args>
  void backward(const Args&... args) {
    words::attention_backward(queue, args...);
  }
};

// Both compute in A and differ by the order of adding, so by some roundings of A times the sizes: scores up to
// 4 head_dim scale, ds and sums of some tens of terms. A rounding to T may then go either way.
template <class T>
void check_alike(const results<T>& got, const results<T>& want, const attention_shape& s) {
  const double terms = static_cast<double>(s.head_dim + s.kv_len + s.q_len * s.heads / s.kv_heads);
  const double of_sums = 32 * terms * sum_rounding<T>;
  const double of_out = sizeof(T) == 2 ? 8 * rounding<T> : 0;  // delta reads `out`, whose roundings differ
  check_close(got.sums, widened(want.sums), of_sums, of_sums);
  check_close(got.out, widened(want.out), 2 * rounding<T>, of_sums);
  check_close(got.dq, widened(want.dq), 2 * rounding<T>, 4 * of_sums + of_out);
  check_close(got.dk, widened(want.dk), 2 * rounding<T>, 4 * of_sums + of_out);
  check_close(got.dv, widened(want.dv), 2 * rounding<T>, 4 * of_sums);
}

template <class T>
void attention_alike(const attention_shape& s, int64 skip, int add, std::uint64_t seed) {
  CAPTURE(s.q_len);
  CAPTURE(s.kv_len);
  CAPTURE(s.head_dim);
  CAPTURE(skip);
  CAPTURE(seed);
  // A sum over no key: the CPU's largest score is -infinity too, which check_close can't compare.
  auto want = run_attention<T>(s, skip, add, on_cpu{});
  auto got = run_attention<T>(s, skip, add, on_cuda{host_queue(seed)});
  for (std::size_t i = 0; i < want.sums.size(); ++i)
    if (std::isinf(want.sums[i])) {
      CHECK(got.sums[i] == want.sums[i]);
      got.sums[i] = want.sums[i] = 0;
    }
  check_alike(got, want, s);
}

}  // namespace

TEST_CASE_TEMPLATE("attention and its backward are the CPU's", T, float, double, bf16, fp16) {
  attention_alike<T>({2, 7, 7, 4, 2, 5, 0.4, true}, 0, 0, 1);     // one tile that is not full
  attention_alike<T>({1, 3, 70, 2, 1, 16, 0.25, true}, 0, 7, 2);  // fewer queries than keys
  if (weft_test::sample_stride() > 1) return;
  attention_alike<T>({1, 70, 9, 2, 2, 8, 0.3, true}, 0, 1, 3);         // queries that see no key
  attention_alike<T>({1, 66, 130, 2, 1, 24, 0.2, false}, 1, 2, 4);     // not aligned
  attention_alike<T>({1, 140, 140, 1, 1, 8, 0.3, true, 30}, 0, 4, 5);  // whole tiles behind the window
  attention_alike<T>({1, 5, 5, 2, 1, 8, 0.3, true, 1}, 0, 0, 6);       // one key each
  attention_alike<T>({1, 40, 72, 1, 1, 132, 0.08, true}, 0, 3, 7);     // smaller tiles
  attention_alike<T>(in_documents({2, 70, 70, 2, 1, 8, 0.3, true}, {3, 64, 1}).s, 0, 5, 8);
  attention_alike<T>(in_documents({1, 150, 150, 1, 1, 8, 0.3, true, 20}, {70, 9, 66}).s, 0, 0, 9);
  attention_alike<T>(in_documents({1, 129, 129, 1, 1, 8, 0.3, true}).s, 0, 0, 10);
}

namespace {

// On tensor cores weights p and their gradients ds are rounded to T before they are multiplied, each by at most u =
// rounding<T> of itself; all that is random here has a size of at most 2. So `out`, an average of values, is off by 2 u
// at most; dv, a sum over queries of p dout, by 2 u times what the weights of a key add up to, here at most some 4; and
// ds = p (dp - delta), of which dp and delta are some 10 at these widths: 20 u scale, and the same again for delta,
// which reads `out`.
template <class T>
void tensor_cores_alike(const attention_shape& s, int add, std::uint64_t seed) {
  CAPTURE(s.q_len);
  CAPTURE(s.kv_len);
  CAPTURE(s.head_dim);
  CAPTURE(seed);
  on_cuda tensor{host_queue(seed)};
  const auto want = run_attention<T>(s, 0, add, on_cpu{}), got = run_attention<T>(s, 0, add, std::move(tensor));
  const double u = rounding<T>, of_sums = 64 * static_cast<double>(s.head_dim) * sum_rounding<T>;
  for (std::size_t i = 0; i < want.sums.size(); ++i)
    CHECK((got.sums[i] == want.sums[i] ||
           std::fabs(got.sums[i] - want.sums[i]) <= of_sums * (1 + std::fabs(want.sums[i]))));
  check_close(got.out, widened(want.out), 2 * u, 3 * u);
  check_close(got.dv, widened(want.dv), 2 * u, 12 * u);
  check_close(got.dq, widened(want.dq), 2 * u, 50 * s.scale * u);
  check_close(got.dk, widened(want.dk), 2 * u, 100 * s.scale * u);
}

}  // namespace

TEST_CASE_TEMPLATE("attention on tensor cores is the CPU's, as far as rounded weights allow", T, bf16, fp16) {
  tensor_cores_alike<T>({1, 40, 70, 2, 1, 64, 0.12, true}, 0, 1);
  if (weft_test::sample_stride() > 1) return;
  tensor_cores_alike<T>({1, 37, 37, 1, 1, 128, 0.09, true}, 7, 2);
  tensor_cores_alike<T>({2, 5, 130, 2, 2, 64, 0.12, false}, 2, 3);
  tensor_cores_alike<T>({1, 70, 20, 1, 1, 64, 0.12, true}, 1, 4);        // queries that see no key
  tensor_cores_alike<T>({1, 140, 140, 1, 1, 64, 0.12, true, 20}, 4, 5);  // whole tiles behind the window
  tensor_cores_alike<T>({1, 20, 20, 1, 1, 64, 0.12, true, 1}, 0, 6);     // one key each
  tensor_cores_alike<T>(in_documents({2, 140, 140, 2, 1, 64, 0.12, true}, {3, 64, 1, 70}).s, 0, 7);
  tensor_cores_alike<T>(in_documents({1, 90, 90, 1, 1, 128, 0.09, true, 20}, {40, 50}).s, 3, 8);
  tensor_cores_alike<T>(in_documents({1, 129, 129, 1, 1, 64, 0.12, true}).s, 0, 14);
}

TEST_CASE_TEMPLATE("so it is for heads of 96 numbers, whose rows are copied otherwise", T, bf16, fp16) {
  tensor_cores_alike<T>({1, 40, 70, 2, 1, 96, 0.1, true}, 5, 9);
  if (weft_test::sample_stride() > 1) return;
  tensor_cores_alike<T>(in_documents({1, 70, 70, 1, 1, 96, 0.1, true, 20}, {40, 50}).s, 2, 10);
}

TEST_CASE_TEMPLATE("and of 256, whose backward's warps share rows", T, bf16, fp16) {
  tensor_cores_alike<T>({1, 37, 70, 2, 1, 256, 0.06, true}, 0, 11);
  if (weft_test::sample_stride() > 1 || std::is_same_v<T, fp16>) return;
  tensor_cores_alike<T>({1, 70, 20, 1, 1, 256, 0.06, true}, 7, 12);  // queries that see no key
  tensor_cores_alike<T>(in_documents({1, 70, 70, 1, 1, 256, 0.06, true, 20}, {40, 50}).s, 3, 13);
}

namespace {

// Counts what it is given of the tensor cores' kernels, and runs nothing.
struct counting_queue : host_queue {
  template <class Kernel>
  void start(int64, std::size_t shared_bytes, const Kernel&) {
    CHECK(shared_bytes <= block_memory());
    if constexpr (requires { Kernel::tiling; }) ++of_tensor_cores;
  }
  int of_tensor_cores = 0;
};

}  // namespace

TEST_CASE_TEMPLATE(
    "heads of 64, 96, 128 and 256 numbers of 16 bits go through the tensor cores, as far as a block's "
    "shared memory goes",
    T, float, bf16, fp16) {
  using counted = weft::gpu::attention_words<counting_queue>;
  for (const int64 d : {32, 64, 80, 96, 128, 192, 256, 512})
    for (const int kib : {227, 163, 99}) {
      CAPTURE(d);
      CAPTURE(kib);
      const bool documents = kib != 163;
      const in_documents one({1, 4, 4, 1, 1, d, 0.1, true}, {2});
      attention_shape s = one.s;
      if (!documents) s.documents = nullptr;
      std::vector<T> x(static_cast<std::size_t>(q_size(s)));
      std::vector<accumulate_t<T>> sums(8);
      counting_queue q;
      q.most_block_memory = static_cast<std::size_t>(kib) * 1024;
      counted::attention(q, s, x.data(), x.data(), x.data(), x.data(), sums.data());
      const bool takes = sizeof(T) == 2 && (d == 64 || d == 96 || (kib > 99 && (d == 128 || d == 256)));
      CHECK(q.of_tensor_cores == (takes ? 1 : 0));
      counted::attention_backward(q, s, x.data(), x.data(), x.data(), x.data(), sums.data(), x.data(), x.data(), false,
                                  x.data(), false, x.data(), false);
      CHECK(q.of_tensor_cores == (!takes ? 0 : kib == 99 && d == 96 ? 1 : 3));
    }
}

namespace {

template <int D>
void same_bits_on_tensor_cores(const attention_shape& s, std::initializer_list<int> numbers_of_threads) {
  const auto first = run_attention<bf16>(s, 0, 0, on_cuda{host_queue(1)});
  for (std::uint64_t seed = 2; seed <= 3; ++seed) {
    const auto other = run_attention<bf16>(s, 0, 0, on_cuda{host_queue(seed)});
    CHECK(same_bits(first.out, other.out));
    CHECK(same_bits(first.dq, other.dq));
    CHECK(same_bits(first.dk, other.dk));
    CHECK(same_bits(first.dv, other.dv));
  }
  const auto q = numbers<bf16>(q_size(s), 1), k = numbers<bf16>(kv_size(s), 2), v = numbers<bf16>(kv_size(s), 3),
             dout = numbers<bf16>(q_size(s), 4);
  const auto delta = [&] {
    std::vector<float> to(first.sums.size() / 2);
    weft::gpu::run_on_host({2, 32, 0, 3},
                           weft::gpu::attention_delta_kernel<bf16>{s.batch, s.q_len, s.heads, D, first.out.data(),
                                                                   dout.data(), to.data(), true});
    return to;
  }();
  for (const int threads : numbers_of_threads) {
    auto out = first.out, dk = first.dk, dv = first.dv, dq = first.dq;
    auto sums = first.sums;
    using forward = weft::gpu::attention_tensor_kernel<bf16, D>;
    using of_keys = weft::gpu::attention_tensor_keys_backward_kernel<bf16, D>;
    using of_queries = weft::gpu::attention_tensor_queries_backward_kernel<bf16, D>;
    out.assign(out.size(), bf16(0.0f)), dk = dv = k, dq = out;
    weft::gpu::run_on_host(
        {2, threads, forward::shared_bytes(threads), 9},
        forward{weft::gpu::tensor_shape<D>(s), q.data(), k.data(), v.data(), out.data(), sums.data()});
    const weft::gpu::attention_tensor_gradient<bf16, D> from{
        weft::gpu::tensor_shape<D>(s), q.data(), k.data(), v.data(), dout.data(), sums.data(), delta.data()};
    weft::gpu::run_on_host({2, threads, of_keys::shared_bytes(threads), 10},
                           of_keys{from, dk.data(), false, dv.data(), false});
    weft::gpu::run_on_host({2, threads, of_queries::shared_bytes(threads), 11}, of_queries{from, dq.data(), false});
    CHECK(same_bits(first.out, out));
    CHECK(same_bits(first.sums, sums));
    CHECK(same_bits(first.dq, dq));
    CHECK(same_bits(first.dk, dk));
    CHECK(same_bits(first.dv, dv));
  }
}

}  // namespace

TEST_CASE("on tensor cores the bits don't depend on the order of threads, on their number or on the grid") {
  same_bits_on_tensor_cores<64>({1, 70, 80, 2, 1, 64, 0.12, true, 50}, {32, 96});
  if (weft_test::sample_stride() > 1) return;
  same_bits_on_tensor_cores<96>({1, 40, 40, 1, 1, 96, 0.1, true}, {96});
  same_bits_on_tensor_cores<256>({1, 40, 50, 1, 1, 256, 0.06, true, 20}, {64});
}

TEST_CASE_TEMPLATE("one document gives the bits of attention that knows of none", T, float, bf16) {
  const attention_shape s{1, 70, 70, 2, 1, 64, 0.12, true};
  const in_documents one(s, {70});
  const auto all = run_attention<T>(s, 0, 0, on_cuda{host_queue(1)}),
             told = run_attention<T>(one.s, 0, 0, on_cuda{host_queue(2)});
  CHECK(same_bits(all.out, told.out));
  CHECK(same_bits(all.sums, told.sums));
  CHECK(same_bits(all.dq, told.dq));
  CHECK(same_bits(all.dk, told.dk));
  CHECK(same_bits(all.dv, told.dv));
}

TEST_CASE("heads of any width that a block's shared memory can hold, and a sentence for wider ones") {
  attention_alike<float>({1, 18, 35, 1, 1, 260, 0.05, true}, 0, 0, 1);
  attention_alike<float>({1, 9, 19, 1, 1, 601, 0.03, true}, 0, 0, 1);
  attention_alike<double>({1, 9, 19, 1, 1, 530, 0.03, true}, 0, 0, 1);
  const auto of_99_kib = [] {
    host_queue q;
    q.most_block_memory = 99 * 1024;
    return q;
  };
  const attention_shape narrow{1, 70, 70, 2, 1, 96, 0.1, true};
  const auto on_less = run_attention<float>(narrow, 0, 0, on_cuda{of_99_kib()}),
             on_more = run_attention<float>(narrow, 0, 0, on_cuda{host_queue(1)});
  check_close(on_less.out, widened(on_more.out), 1e-5, 1e-5), check_close(on_less.dk, widened(on_more.dk), 1e-5, 1e-5);
  host_queue queue;
  const attention_shape wide{1, 1, 1, 1, 1, 5000, 1, true};
  const std::vector<float> x(5000);
  std::vector<float> y(5000), sums(2);
  CHECK_THROWS_WITH_AS(words::attention(queue, wide, x.data(), x.data(), x.data(), y.data(), sums.data()),
                       doctest::Contains("attention: a head_dim of 5000 needs 4"), weft::failure);
  const attention_shape odd{1, 1, 1, 3, 2, 4, 1, true};
  CHECK_THROWS_WITH_AS(words::attention(queue, odd, x.data(), x.data(), x.data(), y.data(), sums.data()),
                       "attention: heads must be a multiple of kv_heads, but they are 3 and 2.", weft::failure);
}

TEST_CASE("attention's bits don't depend on the order of threads, on their number or on the grid") {
  const attention_shape s{1, 70, 80, 4, 2, 12, 0.3, true, 50};
  const auto first = run_attention<float>(s, 0, 0, on_cuda{host_queue(1)});
  for (std::uint64_t seed = 2; seed <= 4; ++seed) {
    const auto other = run_attention<float>(s, 0, 0, on_cuda{host_queue(seed)});
    CHECK(same_bits(first.out, other.out));
    CHECK(same_bits(first.sums, other.sums));
    CHECK(same_bits(first.dq, other.dq));
    CHECK(same_bits(first.dk, other.dk));
    CHECK(same_bits(first.dv, other.dv));
  }
  const auto q = numbers<float>(q_size(s), 1), k = numbers<float>(kv_size(s), 2), v = numbers<float>(kv_size(s), 3);
  const host_queue queue;
  for (const int threads : {32, 96}) {
    using kernel = weft::gpu::attention_kernel<float>;
    auto out = first.out, sums = first.sums;
    const kernel run{
        s, q.data(), k.data(), v.data(), out.data(), sums.data(), kernel::choose_tile(s, queue.block_memory()), true};
    weft::gpu::run_on_host({2, threads, run.shared_bytes(), 9}, run);
    CHECK(same_bits(first.out, out));
    CHECK(same_bits(first.sums, sums));
  }
}

TEST_CASE("attention passes NaN on, where it is seen") {
  const attention_shape s{1, 2, 2, 1, 1, 4, 1.0, true};
  std::vector<float> q(8, 1.0f), k(8, 1.0f), v(8, 1.0f), out(8), sums(4);
  k[4] = NAN;  // key 1, seen by query 1 only
  host_queue queue;
  words::attention(queue, s, q.data(), k.data(), v.data(), out.data(), sums.data());
  CHECK(out[0] == 1);
  CHECK(std::isnan(out[4]));
}
