// A whole training step of a Llama on one rank: tokens over time, and the share of the step that its matrix products
// with weights take when each is run alone ("products"). Names read
// precision/layers/hidden/heads/kv_heads/seq/batch/threads. The products inside attention are not counted: they are
// part of a fused kernel.
#include <algorithm>
#include <chrono>
#include <vector>

#include <benchmark/benchmark.h>

#include <weft/weft.hpp>

namespace {

using namespace weft;

/// Best seconds of three for the three products of a weight [out, in]: forward, gradient of its input, gradient of
/// itself.
template <class T>
double products(cpu::team& cores, std::int64_t tokens, std::int64_t out, std::int64_t in) {
  std::vector<T> x(static_cast<std::size_t>(tokens * in), T(0.5f)), w(static_cast<std::size_t>(out * in), T(0.25f)),
      y(static_cast<std::size_t>(tokens * out), T(0.5f));
  std::vector<float> dw(w.size());
  const auto once = [&] {
    cpu::matmul(cores, {1, tokens, out, in}, x.data(), {in, 1}, w.data(), {1, in}, y.data(), {out, 1}, false);
    cpu::matmul(cores, {1, tokens, in, out}, y.data(), {out, 1}, w.data(), {in, 1}, x.data(), {in, 1}, false);
    cpu::matmul(cores, {1, out, in, tokens}, y.data(), {1, out}, x.data(), {in, 1}, dw.data(), {in, 1}, false);
  };
  once();
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    once();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

template <class Precision>
void step(benchmark::State& state) {
  using S = strategy<mesh<dp, tp>, Precision>;
  const llama_config wanted{.layers = state.range(0),
                            .hidden = state.range(1),
                            .heads = state.range(2),
                            .kv_heads = state.range(3),
                            .vocab = 256,
                            .max_seq = state.range(4)};
  const std::int64_t sequences = state.range(5), tokens = sequences * wanted.max_seq;
  double seconds = 0, alone = 0;
  launch<S>(
      {},
      [&](context& ctx) {
        llama<S> model(ctx, wanted);
        parameter_store<cpu_backend, Precision> store(ctx, model.registry(), config_of<typename S::sharding>());
        model.use(store);
        const adamw optimizer;
        const auto token = [](std::int64_t i) { return (i * i * 5 + i * 3) % 256; };
        using ids = typename llama<S>::ids;
        const auto x = generate<ids>(ctx, {sequences, wanted.max_seq}, token);
        const auto y = generate<ids>(ctx, {sequences, wanted.max_seq}, [&](std::int64_t i) { return token(i + 1); });
        int t = 0;
        const auto once = [&] {
          store.begin_step(1);
          backward(cross_entropy(model(x), y).sum);
          store.end_micro_batch();
          store.finish_gradients();
          const double mean = 1 / static_cast<double>(tokens);
          store.step(optimizer.at(++t, optimizer.lr, mean * std::min(1.0, 1 / (store.gradient_norm() * mean))));
        };
        once();
        std::vector<double> each;
        for (auto _ : state) {
          const auto begin = std::chrono::steady_clock::now();
          once();
          each.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        }
        seconds = *std::min_element(each.begin(), each.end());
        model.release();
        const llama_config& c = model.config();
        const auto of = [&](std::int64_t out, std::int64_t in) {
          return products<typename Precision::compute>(ctx.queue<cpu_backend>(), tokens, out, in);
        };
        alone =
            static_cast<double>(c.layers) * (2 * of(c.hidden, c.hidden) + 2 * of(c.kv_heads * c.head_dim, c.hidden) +
                                             2 * of(c.ffn, c.hidden) + of(c.hidden, c.ffn)) +
            of(c.vocab, c.hidden);
      },
      {.threads_per_rank = static_cast<int>(state.range(6))});
  state.counters["tok/s"] =
      benchmark::Counter(static_cast<double>(tokens), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["best_tok/s"] = static_cast<double>(tokens) / seconds;
  state.counters["products"] = alone / seconds;
}

void models(benchmark::internal::Benchmark* b) {
  for (std::int64_t threads : {1, 2}) {
    b->Args({4, 192, 6, 2, 128, 16, threads});
    b->Args({6, 384, 6, 6, 256, 8, threads});
    b->Args({4, 768, 12, 12, 128, 4, threads});
  }
  b->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(step<fp32>)->Apply(models);
BENCHMARK(step<bf16_mixed>)->Apply(models);

}  // namespace
