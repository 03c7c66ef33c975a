// A wrong program of the catalogue (comm/misuses.hpp) over processes: misusing NUMBER SEED. Every rank that is told
// what the catalogue says writes "found"; without arguments, how many ranks each takes, and its name, is written.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <weft/comm/mpi.hpp>

#include "comm/misuses.hpp"

using namespace weft;

namespace {
struct impatient {
  static constexpr std::chrono::milliseconds stuck{2000};
};

template <class C>
int run(std::size_t number, std::uint64_t seed) {
  const auto m = weft_test::misuses<C>()[number];
  std::string said = "nothing";
  try {
    C::launch(m.ranks, [&](C& world) { weft_test::run_rank(m, world, seed); });
  } catch (const std::exception& e) {
    said = e.what();
  }
  bool found = true;
  for (const std::string& part : m.says) found = found && said.find(part) != std::string::npos;
  std::fprintf(stderr, "rank %d %s: %s\n", mpi::process_rank(), found ? "found" : "MISSED", said.c_str());
  return found ? 0 : 1;
}
}  // namespace

int main(int argc, char** argv) {
  const auto all = weft_test::misuses<checked<mpi>>();
  if (argc != 3) {
    for (const auto& m : all) std::printf("%d %s\n", m.ranks, m.name);
    return 0;
  }
  const auto number = static_cast<std::size_t>(std::atoi(argv[1]));
  const std::uint64_t seed = std::strtoull(argv[2], nullptr, 10);
  return all[number].stuck ? run<checked<mpi, impatient>>(number, seed) : run<checked<mpi>>(number, seed);
}
