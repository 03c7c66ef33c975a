// The bodies of the CUDA kernels, run on the host: against the CPU kernels, over element types, block sizes,
// alignments, seeds.
#include <backend/kernel_testing.hpp>
#include <sample.hpp>

#include <weft/backend/cpu/copy.hpp>
#include <weft/backend/cpu/elementwise.hpp>
#include <weft/backend/cpu/rms_norm.hpp>
#include <weft/backend/cpu/swiglu.hpp>

#include "host_queue.hpp"

using namespace weft_test;
namespace gpu = weft::gpu;

namespace {

// Both sides compute in float (double for double) and round once; they differ by the roundings of a handful of
// operations and of exp, and for sums by the order of adding. 16 roundings of T cover that.
template <class T>
void check_alike(const std::vector<T>& got, const std::vector<T>& want, double magnitude) {
  check_close(got, widened(want), 16 * rounding<T>, 16 * rounding<T> * magnitude);
}

// A vector with room for `skip` elements before the first, so that pointers into it are aligned for packs or not.
template <class T>
struct placed {
  std::vector<T> room;
  int64 skip;
  placed(const std::vector<T>& x, int64 skip_) : room(static_cast<std::size_t>(skip_)), skip(skip_) {
    room.insert(room.end(), x.begin(), x.end());
  }
  T* data() { return room.data() + skip; }
  std::vector<T> get() const { return std::vector<T>(room.begin() + skip, room.end()); }
};

template <class T>
void swiglu_alike(int64 n, int threads, int64 skip, std::uint64_t seed) {
  CAPTURE(n);
  CAPTURE(threads);
  CAPTURE(skip);
  CAPTURE(seed);
  team cores;
  const auto gate = numbers<T>(n, 1, -6, 6), up = numbers<T>(n, 2), dy = numbers<T>(n, 3);
  placed<T> g(gate, skip), u(up, skip), d(dy, skip), y(gate, skip);
  std::vector<T> want(gate.size()), want_gate = dy, want_up = up;
  weft::cpu::swiglu(cores, n, gate.data(), up.data(), want.data());
  const bool packed = gpu::aligned_for_packs(g.data(), u.data(), d.data(), y.data());
  CHECK(packed == (skip == 0));
  gpu::run_on_host({2, threads, 0, seed}, gpu::swiglu_kernel<T>{n, g.data(), u.data(), y.data(), packed});
  check_alike(y.get(), want, 12);

  for (const bool add : {false, true}) {
    placed<T> dg(dy, skip), du(up, skip);
    want_gate = dy, want_up = up;
    weft::cpu::swiglu_backward(cores, n, gate.data(), up.data(), dy.data(), want_gate.data(), add, want_up.data(),
                               !add);
    gpu::run_on_host({2, threads, 0, seed}, gpu::swiglu_backward_kernel<T>{n, g.data(), u.data(), d.data(), dg.data(),
                                                                           add, du.data(), !add, packed});
    check_alike(dg.get(), want_gate, 8);
    check_alike(du.get(), want_up, 12);
  }
  // In place: dgate where gate is, dup where dy is.
  weft::cpu::swiglu_backward(cores, n, gate.data(), up.data(), dy.data(), want_gate.data(), false, want_up.data(),
                             false);
  gpu::run_on_host({2, threads, 0, seed}, gpu::swiglu_backward_kernel<T>{n, g.data(), u.data(), d.data(), g.data(),
                                                                         false, d.data(), false, packed});
  check_alike(g.get(), want_gate, 8);
  check_alike(d.get(), want_up, 12);
}

template <class T>
void rms_norm_alike(int64 rows, int64 width, int threads, int64 blocks, std::uint64_t seed) {
  CAPTURE(rows);
  CAPTURE(width);
  CAPTURE(threads);
  CAPTURE(blocks);
  CAPTURE(seed);
  using A = weft::accumulate_t<T>;
  team cores;
  const auto x = numbers<T>(rows * width, 1), w = numbers<T>(width, 2), dy = numbers<T>(rows * width, 3);
  std::vector<A> rstd(static_cast<std::size_t>(rows)), want_rstd = rstd;
  std::vector<T> y(x.size()), want = y;
  const std::size_t shared = static_cast<std::size_t>(threads / 32) * sizeof(A);
  const bool packed = width % gpu::pack_size<T> == 0;
  weft::cpu::rms_norm(cores, rows, width, 1e-5, x.data(), w.data(), want.data(), want_rstd.data());
  gpu::run_on_host({blocks, threads, shared, seed},
                   gpu::rms_norm_kernel<T>{rows, width, A(1e-5), x.data(), w.data(), y.data(), rstd.data(), packed});
  check_alike(y, want, 4);
  check_close(rstd, widened(want_rstd), (static_cast<double>(width) + 8) * sum_rounding<A>,
              0);  // any order of adding `width` squares

  const auto both_gradients = [&]<class G>(G) {
    for (const bool add : {false, true}) {
      std::vector<T> dx = x, want_dx = x;
      std::vector<G> dw(w.size(), make<G>(1.5)), want_dw = dw;
      std::vector<A> parts(static_cast<std::size_t>(blocks * width), A(NAN));
      weft::cpu::rms_norm_backward(cores, rows, width, x.data(), w.data(), want_rstd.data(), dy.data(), want_dx.data(),
                                   add, want_dw.data(), add);
      gpu::run_on_host({blocks, threads, shared, seed},
                       gpu::rms_norm_backward_kernel<T>{rows, width, x.data(), w.data(), want_rstd.data(), dy.data(),
                                                        dx.data(), add, parts.data(), packed});
      gpu::run_on_host({2, threads, static_cast<std::size_t>(threads) * sizeof(A), seed},
                       gpu::sum_parts_kernel<A, G>{blocks, width, parts.data(), dw.data(), add});
      check_alike(dx, want_dx, 8);
      // Sums over `rows` of products up to 4 * rstd in A, then one rounding to G.
      check_close(dw, widened(want_dw), 2 * rounding<G>, static_cast<double>(rows) * 8 * sum_rounding<A>);
    }
  };
  both_gradients(T());  // the weight's gradient in its own type
  both_gradients(A());  // and as a main gradient
  // Either gradient alone.
  std::vector<T> dx(x.size()), both = dx;
  std::vector<A> parts(static_cast<std::size_t>(blocks * width)), with = parts;
  const auto run = [&](T* to, A* sums, const T* weight) {
    gpu::run_on_host({blocks, threads, shared, seed},
                     gpu::rms_norm_backward_kernel<T>{rows, width, x.data(), weight, want_rstd.data(), dy.data(), to,
                                                      false, sums, packed});
  };
  run(both.data(), with.data(), w.data()), run(dx.data(), nullptr, w.data());
  run(nullptr, parts.data(), nullptr);  // its own gradient doesn't need the weight
  CHECK(same_bits(dx, both));
  CHECK(same_bits(parts, with));
}

// Notes how many blocks each kernel is started with.
struct noting_queue : weft_test::host_queue {
  template <class Kernel>
  void start(int64 blocks, std::size_t shared_bytes, const Kernel& kernel) {
    grids.push_back(blocks);
    host_queue::start(blocks, shared_bytes, kernel);
  }
  std::vector<int64> grids;
};

}  // namespace

TEST_CASE_TEMPLATE("swiglu and its backward are the CPU's", T, float, double, bf16, fp16) {
  swiglu_alike<T>(1027, 64, 0, 1);
  swiglu_alike<T>(61, 64, 1, 2);
  if (weft_test::sample_stride() > 1) return;  // a sanitizer's run: the rest is more of the same
  for (int64 n : {1, 8, 61, 1027})
    for (int64 skip : {0, 1}) swiglu_alike<T>(n, 64, skip, static_cast<std::uint64_t>(n + skip));
  swiglu_alike<T>(300, 32, 0, 5);
  swiglu_alike<T>(300, 160, 0, 6);
}

TEST_CASE_TEMPLATE("rms_norm and its backward are the CPU's", T, float, double, bf16, fp16) {
  rms_norm_alike<T>(3, 7, 64, 2, 2);
  rms_norm_alike<T>(4, 264, 64, 2, 3);
  if (weft_test::sample_stride() > 1) return;
  rms_norm_alike<T>(1, 1, 32, 1, 1);
  rms_norm_alike<T>(5, 64, 32, 2, 3);
  rms_norm_alike<T>(4, 264, 96, 4, 4);
  rms_norm_alike<T>(4, 261, 64, 3, 5);
}

TEST_CASE("a norm's backward starts no block that has no row") {
  using words = gpu::norm_words<noting_queue>;
  static_assert(noting_queue::block_threads == 64);
  const auto blocks = [](int64 rows, int64 width) {
    const auto x = numbers<bf16>(rows * width, 1), w = numbers<bf16>(width, 2);
    std::vector<bf16> dx(x.size());
    std::vector<float> rstd(static_cast<std::size_t>(rows), 1), dw(static_cast<std::size_t>(width)), db = dw;
    const std::vector<double> mean(rstd.size());
    noting_queue q;
    words::rms_norm_backward(q, rows, width, x.data(), w.data(), rstd.data(), x.data(), dx.data(), false, dw.data(),
                             false);
    words::layer_norm_backward(q, rows, width, x.data(), w.data(), mean.data(), rstd.data(), x.data(), dx.data(), false,
                               dw.data(), false, db.data(), false);
    CHECK(q.grids.at(0) == q.grids.at(2));  // behind the first: its weight's parts added up
    return q.grids[0];
  };
  CHECK(blocks(41, 64) == 21);    // a warp has a row, a block two
  CHECK(blocks(41, 1032) == 41);  // both warps share one
  CHECK(blocks(41, 61) == 41);    // not in packs: a block has one
  CHECK(blocks(600, 64) == 256);  // each part is another to be added up
  CHECK(blocks(513, 61) == 256);
}

TEST_CASE("a norm with residual is one kernel where a block holds rows") {
  using words = gpu::norm_words<noting_queue>;
  const auto kernels = [](int64 rows, int64 width) {
    const auto x = numbers<bf16>(rows * width, 1), r = numbers<bf16>(rows * width, 2), w = numbers<bf16>(width, 3);
    std::vector<bf16> h(x.size()), y(x.size());
    std::vector<float> rstd(static_cast<std::size_t>(rows));
    std::vector<double> mean(rstd.size());
    noting_queue one, other;
    words::add_rms_norm(one, rows, width, 1e-5, x.data(), r.data(), w.data(), h.data(), y.data(), rstd.data());
    words::add_layer_norm(other, rows, width, 1e-5, x.data(), r.data(), w.data(), w.data(), h.data(), y.data(),
                          mean.data(), rstd.data());
    CHECK(one.grids.size() == other.grids.size());
    return one.grids.size();
  };
  CHECK(kernels(5, 64) == 1);
  CHECK(kernels(3, 2048) == 1);
  CHECK(kernels(3, 2056) == 2);  // wider than a block's registers
  CHECK(kernels(5, 61) == 2);    // not in packs
}

TEST_CASE("rms_norm's bits don't depend on the order of threads") {
  const auto x = numbers<float>(2 * 100, 1), w = numbers<float>(100, 2);
  std::vector<float> first;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    std::vector<float> y(x.size());
    gpu::run_on_host({2, 96, 3 * sizeof(float), seed},
                     gpu::rms_norm_kernel<float>{2, 100, 1e-5f, x.data(), w.data(), y.data(), nullptr, true});
    if (first.empty()) first = y;
    CHECK(same_bits(first, y));
  }
}

TEST_CASE_TEMPLATE("conversions and filling are the CPU's", From, float, double, bf16, fp16) {
  team cores;
  host_queue queue;
  for (const int64 n : {67, 1, 400}) {
    if (n != 67 && weft_test::sample_stride() > 1) return;
    auto x = numbers<From>(n, 7);
    const auto against_cpu = [&]<class To>(To) {
      for (const bool add : {false, true}) {
        auto got = numbers<To>(n, 8), want = got;
        weft::cpu::convert(cores, n, x.data(), want.data(), add);
        host_cuda_backend::convert(queue, n, x.data(), got.data(), add);
        if (add)
          check_alike(got, want, 4);
        else
          CHECK(same_bits(got, want));
      }
    };
    against_cpu(float()), against_cpu(double()), against_cpu(bf16()), against_cpu(fp16());
    host_cuda_backend::fill(queue, weft::local_array(x.data(), weft::dtype_of<From>, {1, {n}}), 0.75);
    CHECK(same_bits(x, std::vector<From>(x.size(), make<From>(0.75))));
  }
}

TEST_CASE_TEMPLATE("strided copies are the CPU's", T, float, bf16, double, fp16, std::int32_t, std::uint8_t) {
  team cores;
  host_queue queue;
  const int64 extents[3] = {3, 5, 4}, of_x[3] = {1, 3, 15}, of_y[3] = {25, 5, 1};  // turns x around, into a padded y
  const double low = std::is_unsigned_v<T> ? 0 : -9;
  auto x = numbers<T>(60, 1, low, 9), got = numbers<T>(75, 2, low, 9), want = got;
  weft::cpu::copy(cores, 3, extents, sizeof(T), x.data(), of_x, want.data(), of_y);
  const auto as_array = [](std::vector<T>& of) {
    return weft::local_array(of.data(), weft::dtype_of<T>, {1, {static_cast<std::int64_t>(of.size())}});
  };
  host_cuda_backend::copy(queue, 3, extents, as_array(x), of_x, as_array(got), of_y);
  CHECK(same_bits(got, want));
}
