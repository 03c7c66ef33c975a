// A program whose ranks fail in the way that its argument names; failure_test.sh runs it and reads what it says.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <weft/comm/mpi.hpp>

using namespace weft;

namespace {

// A sum over memory that ends with its owner.
struct own_sum {
  explicit own_sum(mpi& c, std::int64_t count)
      : data(std::make_unique<float[]>(static_cast<std::size_t>(count))),
        sum(c.all_reduce(data.get(), data.get(), count, dtype::f32, reduction::sum)) {}
  std::unique_ptr<float[]> data;
  request sum;
};

void fails(const std::string& how, mpi& c) {
  const bool culprit = c.rank() == 1;
  if (how == "idle") {  // the others wait in a barrier
    if (culprit) fail("the disk is full");
    c.barrier().wait();
  } else if (how == "group") {
    mpi half = c.split(c.rank() % 2, c.rank(), "half");
    if (culprit) fail("the disk is full");
    for (int i = 0; i < 1000; ++i) half.barrier().wait();
    c.barrier().wait();
  } else if (how == "buffers") {  // the others wait for what it never posts
    if (culprit) fail("the disk is full");
    own_sum(c, 1 << 20).sum.wait();
  } else if (how == "open") {  // it throws with a sum under way that the others have posted too
    own_sum first(c, 1 << 20);
    if (culprit) fail("the disk is full");
    first.sum.wait();
    c.barrier().wait();
  } else if (how == "alone") {  // with one that the others haven't
    if (!culprit) {
      char x = 0;
      c.recv(&x, 1, 1, 0).wait();
    }
    own_sum first(c, 1 << 20);
    fail("the disk is full");
  } else if (how == "late") {  // the others have come to the end
    if (culprit) fail("the disk is full");
  } else if (how == "all") {
    fail("the disk is full");
  } else if (how == "number") {
    if (culprit) throw 42;
    c.barrier().wait();
  } else if (how == "killed") {  // as by a machine that runs out of memory
    if (culprit) std::raise(SIGKILL);
    c.barrier().wait();
  } else if (how == "exit") {
    if (culprit) std::exit(0);
    c.barrier().wait();
  } else if (how == "sizes" || how == "too-long") {
    char x[64] = {};
    if (c.rank() == 0) c.send(x, how == "sizes" ? 8 : 32, 1, 0).wait();
    if (culprit) c.recv(x, 16, 0, 0).wait();
    c.barrier().wait();
  } else if (how == "nested") {
    mpi::launch(c.size(), [](mpi&) {});
  } else if (how == "swallowed") {  // a program that catches what it shouldn't
    if (culprit) fail("the disk is full");
    for (int i = 0; i < 3; ++i) try {
        c.barrier().wait();
      } catch (...) {
      }
  } else if (how == "arguments") {
    if (culprit) c.send(&c, 4, c.size(), 0).wait();
    c.barrier().wait();
  } else {
    fail("there is no way to fail called ", how);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int ranks = std::atoi(argv[1]);
  const std::string how = argv[2];
  if (how == "uncaught") {
    mpi::launch(ranks, [](mpi& c) { fails("idle", c); });
    return 0;
  }
  if (how == "leaves" && mpi::process_rank() == 1) {  // before the launch, with an error of its own
    std::fprintf(stderr, "main of rank 1: there is no such file\n");
    return 1;
  }
  if (how == "kept") {  // a handle that outlives its launch
    std::unique_ptr<mpi> kept;
    mpi::launch(ranks, [&](mpi& c) { kept = std::make_unique<mpi>(c); });
    try {
      kept->barrier().wait();
    } catch (const failure& e) {
      std::fprintf(stderr, "main of rank %d: %s\n", mpi::process_rank(), e.what());
      return 1;
    }
    return 0;
  }
  try {
    mpi::launch(ranks, [&](mpi& c) { fails(how, c); });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "main of rank %d: %s\n", mpi::process_rank(), e.what());
    return 1;
  } catch (...) {
    std::fprintf(stderr, "main of rank %d: no exception of the library's\n", mpi::process_rank());
    return 1;
  }
  return 0;
}
