// How soon `checked` ends a wrong program, from its launch to the error that launch throws: every program of the tests'
// catalogue but those in which a rank is stuck, whose limit is the program's own.
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
  std::uint64_t seed = 0;
  for (auto _ : state) {
    try {
      C::launch(m.ranks, [&](C& world) { weft_test::run_rank(m, world, seed); });
      state.SkipWithError("it isn't found");
    } catch (const std::exception&) {
    }
    ++seed;
  }
}

template <class C>
bool add(const std::string& over) {
  for (const auto& m : weft_test::misuses<C>())
    if (!m.stuck)
      benchmark::RegisterBenchmark((over + "/" + m.name).c_str(), report<C>, m)
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
  return true;
}

[[maybe_unused]] const bool added =
    add<weft::checked<weft_test::bare>>("bare") && add<weft::checked<weft::threads>>("threads");

}  // namespace
