// Matrix products: GFLOP/s of y = x W (nn), y = x W^T (nt) and dW = x^T dy (tn) for shapes of small language models.
// Names read kind/m/n/k/threads. WEFT_ISA=avx2 and so on shows other instruction sets.
#include <array>
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include <weft/backend/cpu/matmul.hpp>

namespace {

using namespace weft;
using namespace weft::cpu;

enum class form { nn, nt, tn };

template <class T, class Out, form Form>
void product(benchmark::State& state) {
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  team cores(static_cast<int>(state.range(3)));
  std::vector<T> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
  std::vector<Out> c(static_cast<std::size_t>(m * n));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = T(static_cast<float>(i % 7) * 0.25f - 0.75f);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = T(static_cast<float>(i % 5) * 0.25f - 0.5f);
  const strides sa = Form == form::tn ? strides{1, m} : strides{k, 1};
  const strides sb = Form == form::nt ? strides{1, k} : strides{n, 1};
  for (auto _ : state) {
    matmul(cores, {1, m, n, k}, a.data(), sa, b.data(), sb, c.data(), {n, 1}, Form == form::tn);
    benchmark::ClobberMemory();
  }
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

void layers(benchmark::internal::Benchmark* b) {
  for (std::int64_t threads : {1, 2})
    for (auto [m, n, k] : {std::array<std::int64_t, 3>{512, 768, 768},
                           {512, 3072, 768},
                           {2048, 768, 768},
                           {2048, 4096, 1024},
                           {512, 384, 384},
                           {64, 64, 64},
                           {128, 128, 64}})
      b->Args({m, n, k, threads});
  b->UseRealTime();
}
void gradients(benchmark::internal::Benchmark* b) {
  for (std::int64_t threads : {1, 2})
    for (auto [m, n, k] : {std::array<std::int64_t, 3>{768, 768, 2048}, {384, 384, 2048}, {1024, 4096, 2048}})
      b->Args({m, n, k, threads});
  b->UseRealTime();
}
void rows(benchmark::internal::Benchmark* b) {
  for (std::int64_t m : {1, 2, 8}) b->Args({m, 4096, 1024, 1});
  b->UseRealTime();
}

BENCHMARK(product<float, float, form::nn>)->Apply(layers);
BENCHMARK(product<float, float, form::nt>)->Apply(layers);
BENCHMARK(product<float, float, form::tn>)->Apply(gradients);
BENCHMARK(product<bf16, bf16, form::nn>)->Apply(layers);
BENCHMARK(product<bf16, bf16, form::nt>)->Apply(layers);
BENCHMARK(product<bf16, float, form::tn>)->Apply(gradients);
BENCHMARK(product<float, float, form::nn>)->Apply(rows);
BENCHMARK(product<float, float, form::nt>)->Apply(rows);
BENCHMARK(product<bf16, bf16, form::nn>)->Apply(rows);
BENCHMARK(product<bf16, bf16, form::nt>)->Apply(rows);

}  // namespace

BENCHMARK_MAIN();
