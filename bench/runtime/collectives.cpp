// Collectives between threads: payload bytes over time, per rank count and size.
// Each repetition times a batch of operations on rank 0, all ranks running the same batch; memory is touched before.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

#include "weft/comm/threads.hpp"

namespace {

using weft::dtype;
using weft::reduction;
using weft::threads;

enum class operation {
  all_reduce,
  all_reduce_in_place,
  all_reduce_bf16,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  barrier
};

/// `bytes` is the full size: of the sum, of what is gathered, of what is scattered.
void run(benchmark::State& state, operation what) {
  const int ranks = static_cast<int>(state.range(0));
  const std::int64_t bytes = state.range(1), part = bytes / ranks;
  threads::launch(ranks, [&](threads& c) {
    std::vector<std::byte> in(static_cast<std::size_t>(bytes)), out(static_cast<std::size_t>(bytes));
    const auto once = [&] {
      switch (what) {
        case operation::all_reduce:
          return c.all_reduce(in.data(), out.data(), bytes / 4, dtype::f32, reduction::sum).wait();
        case operation::all_reduce_in_place:
          return c.all_reduce(in.data(), in.data(), bytes / 4, dtype::f32, reduction::sum).wait();
        case operation::all_reduce_bf16:
          return c.all_reduce(in.data(), out.data(), bytes / 2, dtype::bf16, reduction::sum).wait();
        case operation::all_gather:
          return c.all_gather(in.data(), out.data(), part).wait();
        case operation::reduce_scatter:
          return c.reduce_scatter(in.data(), out.data(), part / 4, dtype::f32, reduction::sum).wait();
        case operation::all_to_all:
          return c.all_to_all(in.data(), out.data(), part).wait();
        case operation::broadcast:
          return c.broadcast(in.data(), bytes, 0).wait();
        case operation::barrier:
          return c.barrier().wait();
      }
    };
    const int batch = bytes > (1 << 20) ? 2 : 200;
    for (int i = 0; i < batch; ++i) once();
    // rank 0 decides when to stop, and tells the others before each batch
    for (std::int32_t go = 1; go != 0;) {
      if (c.rank() == 0) go = state.KeepRunningBatch(batch);
      c.broadcast(&go, sizeof go, 0).wait();
      if (go == 0) break;
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < batch; ++i) once();
      if (c.rank() == 0) {
        const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
        state.SetIterationTime(time.count());  // of the batch; the library sums them up
      }
    }
  });
  state.SetBytesProcessed(state.iterations() * bytes);
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (int ranks : {2, 4}) {
    for (std::int64_t bytes : {64 << 10, 64 << 20}) bench->Args({ranks, bytes});
  }
  bench->ArgNames({"ranks", "bytes"})->UseManualTime()->MinTime(0.05);
}

BENCHMARK_CAPTURE(run, all_reduce, operation::all_reduce)->Apply(sizes);
BENCHMARK_CAPTURE(run, all_reduce_in_place, operation::all_reduce_in_place)->Apply(sizes);
BENCHMARK_CAPTURE(run, all_reduce_bf16, operation::all_reduce_bf16)->Apply(sizes);
BENCHMARK_CAPTURE(run, all_gather, operation::all_gather)->Apply(sizes);
BENCHMARK_CAPTURE(run, reduce_scatter, operation::reduce_scatter)->Apply(sizes);
BENCHMARK_CAPTURE(run, all_to_all, operation::all_to_all)->Apply(sizes);
BENCHMARK_CAPTURE(run, broadcast, operation::broadcast)->Apply(sizes);
BENCHMARK_CAPTURE(run, barrier, operation::barrier)
    ->ArgNames({"ranks", "bytes"})
    ->Args({2, 4})
    ->Args({4, 4})
    ->Args({8, 4})
    ->UseManualTime()
    ->MinTime(0.05);

}  // namespace

BENCHMARK_MAIN();
