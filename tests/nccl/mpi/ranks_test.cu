// Processes with a GPU each over NCCL: the laws of communicators, operations between kernels, orders in which no two
// ranks agree, calls that are compared, ranks and an NCCL that fail. Needs a GPU for each of two processes or more.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <doctest/doctest.h>

#include <weft/backend/nccl_mpi.cuh>
#include <weft/comm/any.hpp>
#include <weft/testing/communicator.hpp>
#include <weft/testing/watchdog.hpp>
#include <weft/weft.cuh>

#include "../../backend/cuda/in_device_memory.hpp"
#include "../../mpi/world.hpp"
#include "../../said_by.hpp"
#include "../floats.cuh"

using namespace weft;
using namespace weft_test;
using weft::testing::watchdog;

namespace {

// f(communicator behind the rank's queue, the queue) in each process.
template <class C = nccl_mpi, class F>
void on_ranks(const F& f) {
  C::launch(processes(), [&](C& world) {
    const auto q = cuda_backend::open(world.size(), world.rank(), 1);
    any_communicator all = any_communicator(world).behind(queue_ref(*q));
    f(all, *q);
  });
}
// What launch throws to this process.
template <class C = nccl_mpi, class F>
std::string said(const F& f) {
  const watchdog guard("processes over NCCL that end", 100);
  const std::string words = said_by([&] { on_ranks<C>(f); });
  if (auto* const live = of_stand_in<int()>("weft_nccl_live")) CHECK(live() == 0);
  return words;
}
bool has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return true;
}

}  // namespace

TEST_CASE("nccl over MPI: processes with a GPU each obey the laws of communicators") {
  static_assert(communicator_policy<nccl_mpi> && !reduces_in_rank_order<nccl_mpi>);
  weft::testing::check_communicator<in_device_memory<cuda_backend, nccl_mpi>>(processes());
}

TEST_CASE("nccl over MPI: operations run between the kernels before and behind them") {
  const watchdog guard("operations over NCCL", 100);
  const int ranks = processes();
  const auto in_memory_of = [&](const memory_source& from) {
    on_ranks([&](any_communicator& all, gpu::stream& q) {
      const int r = all.rank();
      CHECK(q.device() == r % gpu::device_count());
      const queue_ref order(q);
      const float own = float(r), sum = float(ranks * (ranks + 1) / 2);
      floats x(q, 100, own, from), y(q, 100, 0, from), z(q, 100 * ranks, 0, from), left(q, 100, 0, from),
          most(q, 100, 0, from);
      x.set(1, 1);
      all.all_reduce(x.data(), y.data(), 100, dtype::f32, reduction::sum).wait(order);
      y.set(2, own);
      request sent = all.send(y.data(), 400, (r + 1) % ranks, 3),
              received = all.recv(left.data(), 400, (r + ranks - 1) % ranks, 3);
      all.all_reduce(y.data(), most.data(), 100, dtype::f32, reduction::max).wait(order);
      received.wait(order), sent.wait(order);
      x.set(0, 10 * own);
      all.all_gather(x.data(), z.data(), 400).wait(order);
      x.set(0, -1);  // an input may be used again by a kernel
      std::int64_t mine = 1, here = 0;
      all.host().all_reduce(&mine, &here, 1, dtype::i64, reduction::sum).wait();
      CHECK(here == ranks);
      all.barrier().wait();
      CHECK(y.all()[99] == 2 * sum + own);
      CHECK(left.all()[7] == 2 * sum + float((r + ranks - 1) % ranks));
      CHECK(most.all()[1] == 2 * sum + float(ranks - 1));
      CHECK(z.all()[100 * static_cast<std::size_t>(ranks) - 1] == 10 * float(ranks - 1));
      CHECK(x.all()[0] == -1);
    });
  };
  in_memory_of(gpu::device_memory());
  const nccl_counts before;
  in_memory_of(nccl_mpi::registered_memory());
  const nccl_counts after;
  if (!of_stand_in<int()>("weft_nccl_live") || ranks == 1) return;
  CHECK(after.operations - before.operations == 6);  // of which the barrier's byte isn't an array
  CHECK(after.in_registered - before.in_registered == 5);
  // With the group's communicator x, y, z and what is folded; y and left with those of two pairs.
  CHECK(after.registrations - before.registrations == 6);
}

TEST_CASE("nccl over MPI: the ranks of a second machine are on its first GPUs") {
  if (processes() < 4 || !of_stand_in<int()>("weft_nccl_live")) return;
  const int own = mpi::process_rank();
  setenv("NCCL_HOSTID", own < 2 ? "first" : "second", 1);
  on_ranks([&](any_communicator& all, gpu::stream& q) {
    CHECK(q.device() == (own < 2 ? own : own - 2));
    floats x(q, 64, 1);
    all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum).wait(queue_ref(q));
    CHECK(x.all()[5] == float(processes()));
  });
  unsetenv("NCCL_HOSTID");
}

TEST_CASE("nccl over MPI: operations of several groups, directions and tags wait for no other") {
  const watchdog guard("operations in several orders", 100);
  const int ranks = processes();
  on_ranks([&](any_communicator& all, gpu::stream& q) {
    const int r = all.rank(), peer = ranks - 1 - r;
    const queue_ref order(q);
    any_communicator other = all.split(0, r, "other");
    floats a(q, 64, float(r)), b(q, 64, float(r)), from(q, 64, 0), from_5(q, 64, 0);
    a.set(1, 1);
    std::vector<request> open;
    const auto sum = [&](any_communicator& of, floats& x) {
      return of.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum);
    };
    const bool first = r % 2 == 0;  // the others call all of it in the other order
    open.push_back(first ? sum(all, a) : sum(other, b));
    open.push_back(first ? sum(other, b) : sum(all, a));
    if (peer == r) return;  // of an odd number
    floats c(q, 64, float(10 + r)), d(q, 64, float(20 + r));
    const auto send = [&](floats& x, int tag) { open.push_back(all.send(x.data(), 256, peer, tag)); };
    const auto receive = [&](floats& x, int tag) { open.push_back(all.recv(x.data(), 256, peer, tag)); };
    // Both send before they receive, and one receives the two in the other order.
    send(c, 1), send(d, 5);
    first ? (receive(from, 1), receive(from_5, 5)) : (receive(from_5, 5), receive(from, 1));
    for (request& o : open) o.wait(order);
    const float both = float(ranks * (ranks - 1) / 2);
    CHECK(a.all()[3] == both + float(ranks));
    CHECK(b.all()[3] == both);
    CHECK(from.all()[5] == float(10 + peer));
    CHECK(from_5.all()[5] == float(20 + peer));
  });
}

TEST_CASE("nccl over MPI: an operation that is folded in parts, and a barrier, wait for none before them on the host") {
  if (processes() < 2) return;
  const watchdog guard("operations that are posted before a message", 100);
  on_ranks([&](any_communicator& all, gpu::stream& q) {
    const int r = all.rank();
    floats a(q, 64, 1), most(q, 64, float(r)), message(q, 64, float(r));
    const auto receive = [&] {
      if (r > 0) all.recv(message.data(), 256, 0, 2).wait();
    };
    receive();  // rank 0 sends only after all that the others call only now
    request sum = all.all_reduce(a.data(), a.data(), 64, dtype::f32, reduction::sum);
    request max = all.all_reduce(most.data(), most.data(), 64, dtype::f32, reduction::max);
    request met = all.barrier();
    std::vector<request> sent;
    for (int to = 1; r == 0 && to < all.size(); ++to) sent.push_back(all.send(message.data(), 256, to, 2));
    for (request& o : sent) o.wait();
    sum.wait(), max.wait(), met.wait();
    CHECK(a.all()[7] == float(all.size()));
    CHECK(most.all()[7] == float(all.size() - 1));
    CHECK(message.all()[7] == 0);
  });
}

TEST_CASE("nccl over MPI: nothing of a process is on another's GPU") {
  auto* const begun = of_stand_in<unsigned()>("weft_device_begun");
  if (!begun || processes() < 2) return;
  begun();
  int own = 0;
  on_ranks([&](any_communicator& all, gpu::stream& q) {
    own = q.device();
    const int peer = all.size() - 1 - all.rank();
    floats x(q, 64, 1), y(q, 64, 0);
    if (peer != all.rank()) {
      request sent = all.send(x.data(), 256, peer, 1), received = all.recv(y.data(), 256, peer, 1);
      all.host().barrier().wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(60));  // the watch makes the communicators
      sent.wait(), received.wait();
    }
  });
  CHECK(begun() == 1u << own);
}

TEST_CASE("nccl over MPI: a weight that is trained on sharded data is that of threads on the CPU") {
  const watchdog guard("a small training", 100);
  const auto run = [&]<class... More>(tag_list<More...>, bool registered = false) {
    using S = strategy<mesh<dp>, More...>;
    using B = typename S::backend;
    std::vector<float> got;
    const auto train = [&](context& ctx) {
      auto w = normal<basic_tensor<float, dims<hidden>, place<replicate<dp>>, B>>(ctx, "w", {8}).requires_grad();
      auto x = normal<basic_tensor<float, dims<batch, hidden>, place<shard<batch, dp>>, B>>(ctx, "x", {9, 8});
      adamw_state state;
      for (int step = 0; step < 3; ++step) {
        auto loss = sum(square(x * w));
        backward(loss);
        adamw_update(w, all_reduce<dp>(w.grad()), state, {.lr = 1e-2});
        const float now = item(all_reduce<dp>(loss));
        if (ctx.rank().here() == mpi::process_rank()) got.push_back(now);
      }
    };
    launch<S>({.dp = processes()}, train, {.check = true, .registered_buffers = registered});
    return got;
  };
  const std::vector<float> want = run(tag_list<>{}), over = run(tag_list<cuda_backend, nccl_mpi>{});
  REQUIRE(over.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(std::fabs(over[i] - want[i]) <= 1e-5f * want[i]);
  CHECK(want[2] < want[0]);
  const nccl_counts before;
  CHECK(run(tag_list<cuda_backend, nccl_mpi>{}, true) == over);
  const nccl_counts after;
  CHECK(after.in_registered - before.in_registered == after.operations - before.operations);
  if (of_stand_in<int()>("weft_nccl_live") && processes() > 1) CHECK(after.in_registered > before.in_registered);
}

TEST_CASE("nccl over MPI: calls that are compared: ranks that call different things are named") {
  if (processes() < 2) return;
  const auto different = said<checked<nccl_mpi>>([](any_communicator& all, gpu::stream& q) {
    floats x(q, 64, 1);
    all.all_reduce(x.data(), x.data(), all.rank() == 1 ? 32 : 64, dtype::f32, reduction::sum).wait(queue_ref(q));
  });
  has(different, "all_reduce(64 fp32, sum)") && has(different, "rank 1 calls all_reduce(32 fp32, sum)");
  const auto returned = said<checked<nccl_mpi>>([](any_communicator& all, gpu::stream& q) {
    floats x(q, 64, 1);
    if (all.rank() != 1) all.broadcast(x.data(), 256, 0).wait(queue_ref(q));
  });
  has(returned, "rank 1 has returned, and never called broadcast(256 bytes, root 0)");
}

TEST_CASE("nccl over MPI: a rank that throws ends the others, also those that wait for their GPU") {
  if (processes() < 2) return;
  for (const bool on_gpu : {false, true}) {
    CAPTURE(on_gpu);
    const auto words = said([&](any_communicator& all, gpu::stream& q) {
      floats x(q, 64, 1, nccl_mpi::registered_memory());
      request sum = all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum);
      require(all.rank() != 1, "the disk is full");
      request next = all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum);
      sum.wait(queue_ref(q)), next.wait(queue_ref(q));
      if (on_gpu) q.synchronize();  // nobody looks at MPI meanwhile but the watch
      all.barrier().wait();
    });
    CHECK(words == (mpi::process_rank() == 1 ? "the disk is full" : "rank 1 failed: the disk is full"));
  }
}

TEST_CASE("nccl over MPI: an error that NCCL reports by itself ends all ranks with its words") {
  auto* const fail_after = of_stand_in<void(int, int)>("weft_nccl_fail_after");
  if (!fail_after || processes() < 2) return;
  for (const int after : {0, 5}) {
    if (mpi::process_rank() == 0) fail_after(after, 3);
    const auto words = said([&](any_communicator& all, gpu::stream& q) {
      floats x(q, 64, 1, nccl_mpi::registered_memory());
      for (int i = 0; i < 8; ++i) all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum).wait(queue_ref(q));
      q.synchronize();
      all.barrier().wait();
    });
    has(words, "remote process exited or there was a network error (NCCL error 6)");
    if (mpi::process_rank() != 0) has(words, "rank 0 failed: ");
  }
}

TEST_CASE("nccl over MPI: an operation behind a queue of another GPU is refused") {
  if (processes() < 2 || gpu::device_count() < 2) return;
  const auto words = said_by([] {
    nccl_mpi::launch(processes(), [](nccl_mpi& world) {
      const int gpu = world.rank() == 0 ? 1 : 0;
      const gpu::scoped_device elsewhere(gpu);
      gpu::stream q(gpu);
      any_communicator all = any_communicator(world).behind(queue_ref(q));
      floats x(q, 16, 1);
      if (world.rank() == 1) all.all_reduce(x.data(), x.data(), 16, dtype::f32, reduction::sum).wait(queue_ref(q));
    });
  });
  has(words,
      "rank 1 of a group over nccl is on GPU 1, and calls an operation behind a queue of GPU 0; open the queue "
      "with cuda_backend::open on the rank");
}

// By over_processes.sh --visible 0.
TEST_CASE("one card: two processes that were given the same" * doctest::skip()) {
  has(said([](any_communicator&, gpu::stream&) { FAIL("it is refused"); }),
      "nccl_mpi::launch(" + std::to_string(processes()) +
          ", f) gives every rank a GPU of its own, and ranks 0 and 1 have the same, 0000:01:00.0 of one machine");
  gpu::stream q;
  floats x(q, 64, 1);
  x.set(1, 1);  // the device on the host has run something
  CHECK(x.all()[3] == 2);
}

// By over_processes.sh --killed.
TEST_CASE("killed: a rank while the others wait for their GPU" * doctest::skip()) {
  said([](any_communicator& all, gpu::stream& q) {
    floats x(q, 64, 1);
    all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum).wait();
    if (all.rank() == 1) std::raise(SIGKILL);
    all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum).wait(queue_ref(q));
    q.synchronize();
  });
}
