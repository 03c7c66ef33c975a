// A wrong program of the catalogue (comm/misuses.hpp) over processes: misusing RANKS NUMBER SEED. Every rank that is
// told what the catalogue says, in under a second, writes "found"; without arguments, how many there are is written.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <weft/comm/mpi.hpp>

#include "comm/misuses.hpp"

using namespace weft;

namespace {
struct impatient {
  static constexpr std::chrono::milliseconds stuck{300};
};
using C = checked<mpi, impatient>;
}  // namespace

int main(int argc, char** argv) {
  const auto all = weft_test::misuses<C>();
  if (argc != 3) {
    for (const auto& m : all) std::printf("%d %s\n", m.ranks, m.name);
    return 0;
  }
  const auto& m = all[static_cast<std::size_t>(std::atoi(argv[1]))];
  std::string said = "nothing";
  mpi::process_rank();  // MPI has begun
  const auto begin = std::chrono::steady_clock::now();
  try {
    C::launch(m.ranks, [&](C& world) {
      weft_test::naps rest(std::strtoull(argv[2], nullptr, 10), world.rank());
      weft_test::sleepy<C> r{world, rest};
      m.run(r);
    });
  } catch (const std::exception& e) {
    said = e.what();
  }
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  bool found = took < 1;
  for (const std::string& part : m.says) found = found && said.find(part) != std::string::npos;
  std::fprintf(stderr, "rank %d after %.3f s %s: %s\n", mpi::process_rank(), took, found ? "found" : "MISSED",
               said.c_str());
  return found ? 0 : 1;
}
