// The choice of a token from the logits of one position, on the host, by one core. Names read
// vocabulary/top_k/100 top_p; 0/100 is all tokens.
#include <benchmark/benchmark.h>

#include <weft/core/random.hpp>
#include <weft/train/sampling.hpp>

namespace {

void choose(benchmark::State& state) {
  const weft::philox numbers{1, weft::stream_of("logits")};
  std::vector<double> logits;
  for (std::int64_t i = 0; i < state.range(0); ++i)
    logits.push_back(3 * static_cast<double>(numbers.normal(static_cast<std::uint64_t>(i))));
  const std::vector<std::int32_t> history(64, 7);
  const weft::sampling s{.temperature = 0.8,
                         .top_k = static_cast<int>(state.range(1)),
                         .top_p = static_cast<double>(state.range(2)) / 100,
                         .repetition_penalty = 1.1};
  std::uint64_t i = 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(weft::choose_token(logits, history, s, static_cast<double>(numbers.uniform(i++))));
}
BENCHMARK(choose)
    ->Args({128256, 0, 100})
    ->Args({128256, 50, 100})
    ->Args({128256, 0, 90})
    ->Args({128256, 50, 90})
    ->Unit(benchmark::kMillisecond);

}  // namespace
