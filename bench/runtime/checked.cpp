// How soon `checked` ends a wrong program, from its launch to the error that launch throws: every program of the tests'
// catalogue, with other naps of its ranks each time. Those in which a rank is stuck have a limit of half a second.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <string>

#include <benchmark/benchmark.h>

#include <weft/comm/checked.hpp>
#include <weft/comm/threads.hpp>

#include "../../tests/comm/bare.hpp"
#include "../../tests/comm/misuses.hpp"

namespace {

template <class C>
void report(benchmark::State& state, const weft_test::misuse<C>& m) {
  using clock = std::chrono::steady_clock;
  std::uint64_t seed = 0;
  clock::duration slowest{};
  for (auto _ : state) {
    weft_test::told = false;
    const auto begin = clock::now();
    try {
      C::launch(m.ranks, [&](C& world) { weft_test::run_rank(m, world, seed); });
      state.SkipWithError("it isn't found");
    } catch (const std::exception&) {
    }
    slowest = std::max(slowest, clock::now() - begin);
    ++seed;
  }
  state.counters["slowest_ms"] = std::chrono::duration<double, std::milli>(slowest).count();
}

struct soon {
  static constexpr std::chrono::milliseconds stuck{500};
};

template <class C>
bool add(const std::string& over, bool stuck) {
  for (const auto& m : weft_test::misuses<C>())
    if (m.stuck == stuck)
      benchmark::RegisterBenchmark((over + "/" + m.name).c_str(), report<C>, m)
          ->UseRealTime()
          ->Iterations(50)
          ->Unit(benchmark::kMillisecond);
  return true;
}

[[maybe_unused]] const bool added =
    add<weft::checked<weft_test::bare>>("bare", false) && add<weft::checked<weft::threads>>("threads", false) &&
    add<weft::checked<weft_test::bare, soon>>("bare", true) && add<weft::checked<weft::threads, soon>>("threads", true);

}  // namespace
