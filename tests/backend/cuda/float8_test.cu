// Products in 8 bits on cuda_backend: cuBLASLt's where it takes them, the rounded numbers' where not. Needs a GPU.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <weft/nn/llama.hpp>
#include <weft/testing/backend/float8.hpp>
#include <weft/testing/strategy.hpp>
#include <weft/weft.cuh>

namespace {
using namespace weft;

thread_local int taken = 0, left = 0;
struct counting_backend : cuda_backend {
  template <class... Args>
  static bool float8_matmul(queue& q, const Args&... args) {
    const bool done = cuda_backend::float8_matmul(q, args...);
    ++(done ? taken : left);
    return done;
  }
};

TEST_CASE("laws of products in 8 bits on a GPU, most of which its tensor cores take") {
  taken = left = 0;
  const auto report = testing::check_float8_kernels<counting_backend, float, bf16, fp16>();
  CHECK(report.tried.size() == 5);
  CHECK(taken + left == 5 * 40);
  CHECK(left > 0);
  if (gpu::stream().has_float8())
    CHECK(taken > 5 * 15);
  else
    CHECK(taken == 0);
}

// y and both gradients, in double.
template <class T, class Backend>
std::vector<double> outcome(int rows, int outs, int in) {
  std::vector<double> out;
  launch<strategy<mesh<>, Backend>>({}, [&](context& ctx) {
    auto x = normal<basic_tensor<T, dims<batch, seq, hidden>, place<>, Backend>>(ctx, "x", {2, rows / 2, in});
    auto w = normal<basic_tensor<T, dims<heads, head_dim, hidden>, place<>, Backend>>(ctx, "w", {2, outs / 2, in});
    x.requires_grad(), w.requires_grad();
    const auto y = contract_float8<hidden>(x, w);
    const auto put = [&](const auto& t) {
      for (const double v : on_host(cast<double>(t))) out.push_back(v);
    };
    put(detach(y));
    backward(sum(square(y)));
    put(x.grad()), put(w.grad());
  });
  return out;
}

template <class T>
void same_as_the_cpu(int rows, int outs, int in, int products) {
  taken = 0;
  const auto want = outcome<T, cpu_backend>(rows, outs, in), got = outcome<T, counting_backend>(rows, outs, in);
  if (gpu::stream().has_float8()) CHECK(taken == products);
  REQUIRE(got.size() == want.size());
  double largest = 0, worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::fmax(largest, std::fabs(want[i]));
    worst = std::isfinite(got[i]) ? std::fmax(worst, std::fabs(got[i] - want[i])) : INFINITY;
  }
  // A gradient that lies at the middle of two numbers of 8 bits may become either.
  CHECK(worst <= 0x1p-6 * largest);
}

TEST_CASE_TEMPLATE("a contraction in 8 bits, and its gradients, on a GPU equal the CPU's", T, float, bf16) {
  same_as_the_cpu<T>(32, 48, 64, 3);  // each is cuBLASLt's
  same_as_the_cpu<T>(10, 48, 64, 2);  // but that over the rows, the weight's gradient
  same_as_the_cpu<T>(10, 6, 5, 0);
}

TEST_CASE("a Llama whose projections multiply in 8 bits trains on a GPU as on the CPU") {
  const testing::training_task task{
      {.batch = 2, .seq = 16, .steps = 3},
      {.layers = 2, .hidden = 32, .heads = 2, .kv_heads = 2, .ffn = 48, .vocab = 48, .max_seq = 16}};
  const auto trained = [&]<class Backend>(Backend) {
    return testing::train<strategy<mesh<dp, tp>, bf16_mixed, float8<>, Backend>>({}, task);
  };
  const auto want = trained(cpu_backend{});
  taken = left = 0;
  const auto got = trained(counting_backend{});
  if (gpu::stream().has_float8()) CHECK(taken == 3 * 2 * 7 * 3);
  REQUIRE(got.losses.size() == want.losses.size());
  for (std::size_t i = 0; i < want.losses.size(); ++i)
    CHECK(got.losses[i] == doctest::Approx(want.losses[i]).epsilon(3e-3));
  CHECK(got.losses.back() < got.losses.front());
}

}  // namespace
