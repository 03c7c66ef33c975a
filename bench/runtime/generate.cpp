// Text from a GPT-2, token by token: tokens over time, and the bytes of weights that are read over time, since each
// token reads all of them. `whole` is the same without a cache: the whole text is read for each token. Names read
// precision/layers/hidden/heads/vocab/prompt/sequences/threads.
#include <benchmark/benchmark.h>

#include <weft/weft.hpp>

namespace {

using namespace weft;

template <class Precision, bool Cached>
void text(benchmark::State& state) {
  using S = strategy<mesh<dp, tp>, Precision>;
  const gpt2_config wanted{.layers = state.range(0),
                           .hidden = state.range(1),
                           .heads = state.range(2),
                           .vocab = state.range(3),
                           .max_seq = 1024,
                           .dropout = 0};
  const std::int64_t prompt = state.range(4), sequences = state.range(5);
  launch<S>({},
            [&](context& ctx) {
              gpt2<S> model(ctx, wanted);
              model.registry().freeze([](const parameter_record&) { return true; });
              parameter_store<cpu_backend, Precision> store(ctx, model.registry(), config_of<replicated>());
              model.use(store);
              const no_grad off(ctx);
              using ids = typename gpt2<S>::ids;
              const auto tokens = [&](std::int64_t n) {
                return generate<ids>(ctx, {sequences, n}, [&](std::int64_t i) { return i * 7919 % wanted.vocab; });
              };
              if constexpr (Cached) {
                kv_cache cache(ctx, sequences, 1024);
                model.prefill(tokens(prompt), cache);
                const auto next = tokens(1);
                for (auto _ : state) {
                  benchmark::DoNotOptimize(model.decode(next, cache).local_share().data());
                  for (std::int64_t i = 0; i < sequences; ++i) cache.truncate(i, prompt);
                }
              } else {
                const auto all = tokens(prompt + 1);
                for (auto _ : state) benchmark::DoNotOptimize(model(all).local_share().data());
              }
              model.release();
            },
            {.threads_per_rank = static_cast<int>(state.range(6)), .check = false});
  using counter = benchmark::Counter;
  state.counters["tokens/s"] = counter(static_cast<double>(sequences), counter::kIsIterationInvariantRate);
  state.counters["weights/s"] = counter(static_cast<double>(wanted.parameters()) * sizeof(typename Precision::compute),
                                        counter::kIsIterationInvariantRate, counter::kIs1024);
}

void sizes(benchmark::internal::Benchmark* b) {
  b->Args({12, 768, 12, 50257, 128, 1, 1})
      ->Args({12, 768, 12, 50257, 128, 1, 2})
      ->Args({12, 768, 12, 50257, 128, 8, 2});
  b->UseRealTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK(text<fp32, true>)->Name("fp32")->Apply(sizes);
BENCHMARK(text<fp32, false>)->Name("fp32 whole")->Apply(sizes);
BENCHMARK(text<bf16_mixed, true>)->Name("bf16")->Apply(sizes);
BENCHMARK(text<bf16_mixed, false>)->Name("bf16 whole")->Apply(sizes);

}  // namespace
