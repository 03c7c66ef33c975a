// What launch_options.check costs: a training step of a Llama without and with it, on the same ranks. The two take
// turns in one process, each in a launch of its own, so that what else runs on the machine meets both. Names read
// sharding/layers/hidden/seq/batch/dp/tp.
#include <algorithm>
#include <chrono>
#include <vector>

#include <benchmark/benchmark.h>

#include <weft/weft.hpp>

namespace {

using namespace weft;

/// Median seconds of `steps` steps, after one that is not counted.
template <class Sharding>
double seconds_a_step(const benchmark::State& state, bool check, int steps) {
  using S = strategy<mesh<dp, tp>, Sharding>;
  const llama_config wanted{.layers = state.range(0),
                            .hidden = state.range(1),
                            .heads = 6,
                            .kv_heads = 6,
                            .vocab = 256,
                            .max_seq = state.range(2)};
  const std::int64_t sequences = state.range(3);
  double median = 0;
  launch<S>(
      {.dp = static_cast<int>(state.range(4)), .tp = static_cast<int>(state.range(5))},
      [&](context& ctx) {
        llama<S> model(ctx, wanted);
        parameter_store<cpu_backend, fp32> store(ctx, model.registry(), config_of<Sharding>());
        model.use(store);
        const adamw optimizer;
        const auto token = [](std::int64_t i) { return (i * i * 5 + i * 3) % 256; };
        using ids = typename llama<S>::ids;
        const auto x = generate<ids>(ctx, {sequences, wanted.max_seq}, token);
        const auto y = generate<ids>(ctx, {sequences, wanted.max_seq}, [&](std::int64_t i) { return token(i + 1); });
        std::vector<double> each;
        for (int t = 1; t <= steps + 1; ++t) {
          const auto begin = std::chrono::steady_clock::now();
          store.begin_step(1);
          backward(cross_entropy(model(x), y).sum);
          store.end_micro_batch();
          store.finish_gradients();
          store.step(optimizer.at(t, optimizer.lr, 1e-3));
          if (t > 1) each.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        }
        std::sort(each.begin(), each.end());
        if (ctx.is_first()) median = each[each.size() / 2];
        model.release();
      },
      {.check = check});
  return median;
}

template <class Sharding>
void check_cost(benchmark::State& state) {
  std::vector<double> without, with, ratio;
  for (auto _ : state) {
    without.push_back(seconds_a_step<Sharding>(state, false, 5));
    with.push_back(seconds_a_step<Sharding>(state, true, 5));
    ratio.push_back(with.back() / without.back());
  }
  const auto median = [](std::vector<double> x) {
    std::sort(x.begin(), x.end());
    return x[x.size() / 2];
  };
  state.counters["ms_without"] = 1e3 * median(without);
  state.counters["ms_with"] = 1e3 * median(with);
  state.counters["ratio"] = median(ratio);
}

void meshes(benchmark::internal::Benchmark* b) {
  b->Args({2, 96, 64, 16, 2, 1})->Args({4, 192, 128, 16, 2, 1})->Args({6, 384, 256, 4, 2, 1});
  b->Args({4, 192, 128, 16, 1, 2})->Args({4, 192, 128, 16, 2, 2});
  b->Iterations(7)->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(check_cost<replicated>)->Apply(meshes);
BENCHMARK(check_cost<zero3>)->Apply(meshes);

}  // namespace
