// The MLP block on cuda_backend against cpu_backend. Needs a GPU.
#include <optim/rounded_moments.hpp>

#include <weft/weft.cuh>

#include "mlp_trial.hpp"

using namespace weft_test;
using weft::strategy, weft::mesh, weft::dp, weft::tp, weft::bf16_mixed, weft::fp32;

TEST_CASE_TEMPLATE("the MLP block on a GPU equals the CPU's", Precision, fp32, bf16_mixed) {
  using on_cpu = strategy<mesh<dp, tp>, Precision>;
  using on_gpu = strategy<mesh<dp, tp>, Precision, weft::cuda_backend>;
  for (const mlp_sizes size : {mlp_sizes{2, 5, 16, 24}, mlp_sizes{1, 3, 13, 7}, mlp_sizes{2, 64, 256, 384}})
    check_same_outcome(run_mlp<on_gpu>(size), run_mlp<on_cpu>(size), mlp_tolerance<on_cpu>());
}

namespace {
using weft::zero1;

// Three steps of AdamW over a unit of matrices, which have no gradient and decay, between vectors that have one and
// don't.
template <class S>
std::vector<double> trained_block() {
  using namespace weft;
  using compute = typename S::precision::compute;
  using x_type = basic_tensor<compute, dims<batch, hidden>, place<shard<batch, dp>>, typename S::backend>;
  std::vector<double> out;
  launch<S>({}, [&](context& ctx) {
    constexpr std::int64_t width = 40;
    parameter_registry registry;
    registry.begin_unit("block");
    weight<S, dims<ffn, hidden>> matrices[3];
    weight<S, dims<hidden>> vectors[3];
    for (int i = 0; i < 3; ++i) {
      registry.add(ctx, matrices[i], "matrix " + std::to_string(i), {2, {7, width}}, {0.5});
      registry.add(ctx, vectors[i], "vector " + std::to_string(i), {1, {width}}, {0.5, 1});
    }
    parameter_store<typename S::backend, typename S::precision> store(ctx, registry, config_of<zero1>());
    const auto x = normal<x_type>(ctx, "x", {2, width});
    for (int step = 1; step <= 3; ++step) {
      store.begin_step(1);
      const auto h = in_unit(
          ctx, store, 0, [&](const x_type& in) -> x_type { return in * vectors[0] * vectors[1] * vectors[2]; }, x);
      backward(sum(square(h)));
      store.end_micro_batch();
      store.finish_gradients();
      store.step(adamw{}.at(step, 0.1));
    }
    store.each_parameter([&](const parameter_record&, auto, auto w) { out.insert(out.end(), w.begin(), w.end()); });
  });
  return out;
}
}  // namespace

// update_launches_test.sh counts their kernels.
TEST_CASE_TEMPLATE("AdamW over a unit's matrices and vectors on a GPU equals the CPU's", precision, weft::bf16_mixed,
                   weft::bf16_moments) {
  using on_cpu = strategy<mesh<dp>, zero1, precision>;
  using on_gpu = strategy<mesh<dp>, zero1, precision, weft::cuda_backend>;
  const auto want = trained_block<on_cpu>(), got = trained_block<on_gpu>();
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-3));  // gradients of 16 bits, whose sums have other orders
}

TEST_CASE("AdamW's moments in bf16 have the same bits on a GPU as on the CPU") {
  using weft::bf16_moments, weft_test::rounded_moments;
  const auto want = rounded_moments<strategy<mesh<dp, tp>, bf16_moments, zero1>>({});
  using on_gpu = strategy<mesh<dp, tp>, bf16_moments, zero1, weft::cuda_backend>;
  CHECK(rounded_moments<on_gpu>({}) == want);
  CHECK(rounded_moments<on_gpu>({.dp = 2, .tp = 2}) == want);
  constexpr std::size_t many = weft::rounding_ranges::most + 1;
  CHECK(rounded_moments<on_gpu>({}, 2, 0, many) ==
        rounded_moments<strategy<mesh<dp, tp>, bf16_moments, zero1>>({}, 2, 0, many));
}

namespace {
// What comes out, and all gradients. Widths that cuBLASLt takes gelu of, and 3, of which it doesn't.
template <class S>
std::vector<double> biased_layers(bool apart) {
  using namespace weft;
  using T = typename S::precision::compute;
  using backend = typename S::backend;
  std::vector<double> out;
  launch<S>({}, [&](context& ctx) {
    const auto x = normal<basic_tensor<T, dims<batch, hidden>, place<>, backend>>(ctx, "x", {6, 24}).requires_grad();
    const auto up = normal<basic_tensor<T, dims<ffn, hidden>, place<>, backend>>(ctx, "up", {40, 24}).requires_grad();
    const auto b = normal<basic_tensor<T, dims<ffn>, place<>, backend>>(ctx, "b", {40}).requires_grad();
    const auto down = normal<basic_tensor<T, dims<vocab, ffn>, place<>, backend>>(ctx, "d", {3, 40}).requires_grad();
    const auto c = normal<basic_tensor<T, dims<vocab>, place<>, backend>>(ctx, "c", {3}).requires_grad();
    const auto h = apart ? gelu(contract<hidden>(x, up) + b) : contract_gelu<hidden>(x, up, b);
    const auto y = apart ? contract<ffn>(h, down) + c : contract<ffn>(h, down, c);
    const auto z = apart ? gelu(contract<ffn>(h, down) + c) : contract_gelu<ffn>(h, down, c);
    const auto put = [&](const auto& t) {
      for (const double v : on_host(cast<double>(t))) out.push_back(v);
    };
    put(detach(y)), put(detach(z));
    backward(sum(square(y)) + sum(z));
    put(x.grad()), put(up.grad()), put(b.grad()), put(down.grad()), put(c.grad());
  });
  return out;
}
}  // namespace

TEST_CASE_TEMPLATE("a bias and gelu with the product on a GPU equal those after it, and the CPU's", Precision, fp32,
                   bf16_mixed) {
  const auto want = biased_layers<strategy<mesh<>, Precision>>(false);
  double largest = 0;
  for (const double w : want) largest = std::max(largest, std::fabs(w));
  using on_gpu = strategy<mesh<>, Precision, weft::cuda_backend>;
  const double step = std::same_as<Precision, fp32> ? 0x1p-20 : 0x1p-7;
  for (const bool apart : {false, true}) {
    const auto got = biased_layers<on_gpu>(apart);
    REQUIRE(got.size() == want.size());
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(std::fabs(got[i] - want[i]) <= step * largest);
  }
}

TEST_CASE("products that share a plan of cuBLASLt have their own biases, and places before gelu") {
  using namespace weft;
  gpu::stream q;
  constexpr int n = 64;  // floats: rows so long that each is aligned as the first
  const gpu::device_pointer memory(gpu::allocate(9 * n * sizeof(float)));
  auto* const at = static_cast<float*>(memory.get());
  std::vector<float> numbers(9 * n, 0.0f), got(9 * n);
  numbers[0] = 1;                                                          // a [1, 1]
  for (int j = 0; j < n; ++j) numbers[n + j] = 2;                          // b [1, n]
  for (int i = 0; i < 2; ++i) numbers[(2 + i) * n + 1] = 10.0f * (1 + i);  // two biases
  q.upload(numbers.data(), at, numbers.size() * sizeof(float));
  for (int i = 0; i < 2; ++i) {
    const matmul_epilogue biased{at + (2 + i) * n}, active{biased.bias, at + (6 + i) * n};
    CHECK(cuda_backend::matmul(q, {1, 1, n, 1}, at, {1, 1, 0}, at + n, {n, 1, 0}, at + (4 + i) * n, {n, 1, 0}, biased));
    CHECK(cuda_backend::matmul(q, {1, 1, n, 1}, at, {1, 1, 0}, at + n, {n, 1, 0}, at + 8 * n, {n, 1, 0}, active));
  }
  q.download(at, got.data(), got.size() * sizeof(float));
  for (int i = 0; i < 2; ++i) {
    CHECK(got[(4 + i) * n] == 2);
    CHECK(got[(4 + i) * n + 1] == 12 + 10 * i);
    CHECK(got[(6 + i) * n + 1] == 12 + 10 * i);
  }
  CHECK(got[8 * n + 1] == 22);
}

namespace {
// As numbers of files, which each rank reads by itself.
struct numbers_read {
  std::int64_t size() const { return 1; }
  template <class Through, class Out>
  void read(const weft::placed_slice&, std::int64_t, std::int64_t, Out*) const {}
};
// For nvcc's front end alone: what loads weights takes such numbers.
[[maybe_unused]] void load(weft::parameter_store<weft::cuda_backend, bf16_mixed>& store) {
  store.load_parameters([](const weft::parameter_record&) { return numbers_read(); });
}
}  // namespace
