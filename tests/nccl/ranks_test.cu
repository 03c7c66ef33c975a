// Ranks over NCCL: operations between kernels, what is refused, ranks and NCCL that fail. Needs a GPU for each of three
// ranks; what plans a failure of NCCL's needs the one that stands in for it (device/runtime/nccl.cpp).
#include <atomic>

#include <doctest/doctest.h>

#include <weft/backend/nccl.cuh>
#include <weft/comm/any.hpp>
#include <weft/parallel/launch.hpp>
#include <weft/testing/watchdog.hpp>

#include "../said_by.hpp"
#include "floats.cuh"

using namespace weft;
using namespace weft_test;
using weft::testing::watchdog;

namespace {

bool enough(int gpus) {
  if (gpu::device_count() >= gpus) return true;
  MESSAGE("skipped: this machine has ", gpu::device_count(), " GPUs, not ", gpus);
  return false;
}

// f(communicator behind the rank's queue, the queue) on each rank.
template <class F>
void on_ranks(int ranks, const F& f) {
  nccl::launch(ranks, [&](nccl& world) {
    const auto q = cuda_backend::open(world.size(), world.rank(), 1);
    any_communicator all = any_communicator(world).behind(queue_ref(*q));
    f(all, *q);
  });
}
void all_ended() {
  if (auto* const live = of_stand_in<int()>("weft_nccl_live")) CHECK(live() == 0);
}

}  // namespace

TEST_CASE("nccl: each rank has a GPU of its own, and operations run between the kernels before and behind them") {
  if (!enough(3)) return;
  const watchdog guard("operations over NCCL", 300);
  std::vector<int> gpus(3, -1);
  on_ranks(3, [&](any_communicator& all, gpu::stream& q) {
    const int r = all.rank();
    gpus[static_cast<std::size_t>(r)] = q.device();
    const queue_ref order(q);
    const float own = float(r);
    floats x(q, 100, own), y(q, 100, 0), z(q, 300, 0), left(q, 100, 0), alone(q, 100, 0);
    any_communicator ends = all.split(r == 1 ? -7 : 3, -r, "ends");  // ranks 2 and 0; 1 alone
    x.set(1, 1);
    all.all_reduce(x.data(), y.data(), 100, dtype::f32, reduction::sum).wait(order);  // 6
    y.set(2, own);
    request sent = all.send(y.data(), 400, (r + 1) % 3, 3);
    request received = all.recv(left.data(), 400, (r + 2) % 3, 3);
    request summed = ends.all_reduce(y.data(), alone.data(), 100, dtype::f32, reduction::max);
    summed.wait(order), received.wait(order), sent.wait(order);
    x.set(0, 10 * own);
    all.all_gather(x.data(), z.data(), 400).wait(order);
    x.set(0, -1);  // an input may be used again by a kernel
    std::int64_t mine = 1, ranks = 0;
    all.host().all_reduce(&mine, &ranks, 1, dtype::i64, reduction::sum).wait();
    CHECK(ranks == 3);
    all.barrier().wait();
    CHECK(y.all()[99] == 12 + own);
    CHECK(left.all()[7] == 12 + float((r + 2) % 3));
    CHECK(alone.all()[1] == (r == 1 ? 13 : 14));
    CHECK(z.all() == [] {
      std::vector<float> want(300, 0);
      for (std::size_t i = 100; i < 300; ++i) want[i] = i < 200 ? 10 : 20;
      return want;
    }());
    CHECK(x.all()[0] == -1);
    const collective_label nothing;
    float* const self = left.data();
    request to_self = all.send(x.data(), 400, r, 1, nothing), from_self = all.recv(self, 400, r, 1, nothing);
    to_self.wait(order), from_self.wait(order);
    CHECK(left.all()[50] == -1);
  });
  CHECK(gpus == std::vector{0, 1, 2});
  int now = -1;
  gpu::check(cudaGetDevice(&now), "cudaGetDevice");
  CHECK(now == 0);  // rank 0 was on this thread
  all_ended();
}

TEST_CASE("nccl: where there are fewer GPUs than ranks, a sentence says so") {
  const int gpus = gpu::device_count();
  const auto said = said_by([&] { nccl::launch(gpus + 1, [](nccl&) {}); });
  CHECK(said == weft::detail::text(
                    "nccl::launch(", gpus + 1, ", f) gives every rank a GPU of its own, and this machine has ", gpus,
                    "; launch at most so many ranks, or take the communicator threads, whose ranks share GPU 0."));
  CHECK(said_by([&] { nccl::launch(0, [](nccl&) {}); }) == "nccl::launch takes 1 rank or more, not 0.");
}

TEST_CASE("nccl: ranks that call different collectives, never come or throw end with the sentences of threads") {
  if (!enough(3)) return;
  const watchdog guard("misuses over NCCL", 300);
  const auto said = said_by([] {
    on_ranks(2, [](any_communicator& all, gpu::stream& q) {
      floats x(q, 64, 1);
      all.all_reduce(x.data(), x.data(), all.rank() == 0 ? 64 : 32, dtype::f32, reduction::sum).wait(queue_ref(q));
    });
  });
  CHECK(said.find("rank 0 calls all_reduce(64 fp32, sum) of a device's memory; rank 1 calls all_reduce(32") !=
        std::string::npos);
  const auto alone = said_by([] {
    on_ranks(3, [](any_communicator& all, gpu::stream& q) {
      floats x(q, 64, 1);
      if (all.rank() != 1) all.broadcast(x.data(), 256, 0).wait(queue_ref(q));
    });
  });
  CHECK(alone.find("No rank can go on:") != std::string::npos);
  CHECK(alone.find("which still has to be called by rank 1") != std::string::npos);
  const auto thrown = said_by([] {
    on_ranks(3, [](any_communicator& all, gpu::stream& q) {
      floats x(q, 64, 1), y(q, 64, 1);
      request first = all.all_reduce(x.data(), y.data(), 64, dtype::f32, reduction::sum);
      require(all.rank() != 1, "the disk is full");
      all.all_reduce(y.data(), x.data(), 64, dtype::f32, reduction::sum).wait(queue_ref(q));
    });
  });
  CHECK(thrown == "the disk is full");
  const auto before = said_by([] {
    nccl::launch(3, [](nccl& world) {
      require(world.rank() != 2, "the disk is full");
      world.split(0, 0, "never");
    });
  });
  CHECK(before == "the disk is full");
  all_ended();
}

TEST_CASE("nccl: an error that NCCL reports by itself ends all ranks, also those that wait for their GPU") {
  auto* const fail_after = of_stand_in<void(int, int)>("weft_nccl_fail_after");
  if (!fail_after || !enough(3)) return;
  const watchdog guard("a failure of NCCL's", 300);
  for (const int after : {0, 5})
    for (const bool blocks : {false, true}) {
      CAPTURE(after);
      CAPTURE(blocks);
      fail_after(after, 0);
      const auto said = said_by([&] {
        on_ranks(3, [&](any_communicator& all, gpu::stream& q) {
          floats x(q, 64, 1);
          for (int i = 0; i < 8; ++i) {
            request r = all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum);
            blocks ? r.wait() : r.wait(queue_ref(q));
          }
          q.synchronize();
        });
      });
      CHECK(said.find("remote process exited or there was a network error (NCCL error 6)") != std::string::npos);
      all_ended();
    }
}

TEST_CASE("nccl: an error that comes late ends who waits for a GPU, also behind what is folded") {
  auto* const fail_after = of_stand_in<void(int, int)>("weft_nccl_fail_after");
  if (!fail_after || !enough(3)) return;
  const watchdog guard("a late failure of NCCL's", 300);
  for (const bool folds : {true, false}) {
    CAPTURE(folds);
    fail_after(0, 8);
    const auto said = said_by([&] {
      on_ranks(3, [&](any_communicator& all, gpu::stream& q) {
        floats x(q, 64, 1);
        request sum = all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum);
        if (folds) all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::max).wait(queue_ref(q));
        sum.wait(queue_ref(q));
        q.synchronize();
        all.barrier().wait();
      });
    });
    CHECK(said.find("remote process exited or there was a network error (NCCL error 6)") != std::string::npos);
    all_ended();
  }
}

TEST_CASE("nccl: a split that NCCL fails ends all ranks with its words, and no communicator is left") {
  auto* const fail_split = of_stand_in<void()>("weft_nccl_fail_split");
  if (!fail_split || !enough(3)) return;
  const watchdog guard("a split that fails", 300);
  fail_split();
  std::atomic<int> ended{0};
  const auto said = said_by([&] {
    nccl::launch(3, [&](nccl& world) {
      try {
        world.split(0, world.rank(), "never");
      } catch (...) {
        ++ended;
        throw;
      }
    });
  });
  CHECK(said.find("ncclCommSplit failed: remote process exited or there was a network error") != std::string::npos);
  CHECK(ended == 3);
  all_ended();
}

TEST_CASE("nccl: a launch inside a rank is on that rank's GPU, and one of several ranks on GPU 0") {
  if (!enough(3)) return;
  const auto device = [] {
    int now = -1;
    gpu::check(cudaGetDevice(&now), "cudaGetDevice");
    return now;
  };
  nccl::launch(3, [&](nccl& world) {
    const int own = world.rank();
    const auto q = cuda_backend::open(world.size(), own, 1);
    CHECK(q->device() == own);
    threads::launch(1, [&](threads&) { CHECK(cuda_backend::open(1, 0, 1)->device() == own); });
    threads::launch(3, [&](threads& inner) {
      const auto shared = cuda_backend::open(inner.size(), inner.rank(), 1);
      CHECK(shared->device() == 0);
      CHECK(device() == 0);
    });
    CHECK(device() == own);
    floats x(*q, 16, 2);
    x.set(2, 0);
    CHECK(x.all()[15] == 4);
  });
}

TEST_CASE("nccl: a queue on another GPU waits for all of an operation") {
  if (!enough(3)) return;
  on_ranks(2, [](any_communicator& all, gpu::stream& q) {
    floats x(q, 16, 1), y(q, 16, 0);
    request sum = all.all_reduce(x.data(), y.data(), 16, dtype::f32, reduction::sum);
    {
      const gpu::scoped_device elsewhere(2);
      gpu::stream other(2);
      sum.wait(queue_ref(other));
      other.synchronize();
    }
    std::vector<float> got(16);
    gpu::stream second(q.device());  // waits for nothing by itself
    second.download(y.data(), got.data(), 64);
    CHECK(got[3] == 2);
    q.synchronize();
  });
}

TEST_CASE("nccl: an operation behind a queue of another GPU is refused") {
  if (!enough(3)) return;
  const auto said = said_by([] {
    nccl::launch(2, [](nccl& world) {
      const int gpu = world.rank() + 1;
      const gpu::scoped_device elsewhere(gpu);
      gpu::stream q(gpu);
      any_communicator all = any_communicator(world).behind(queue_ref(q));
      floats x(q, 16, 1);
      if (world.rank() == 1) all.all_reduce(x.data(), x.data(), 16, dtype::f32, reduction::sum).wait(queue_ref(q));
    });
  });
  CHECK(said ==
        "rank 1 of a group over nccl is on GPU 1, and calls an operation behind a queue of GPU 2; open the queue with "
        "cuda_backend::open on the rank");
  all_ended();
}

TEST_CASE("nccl: a launch on the CPU moves the host's memory, and a strategy takes one rank too") {
  if (!enough(1)) return;
  launch<strategy<mesh<dp>, cuda_backend, nccl>>({}, [](context& ctx) { CHECK(ctx.size().here() == 1); });
  if (!enough(2)) return;
  launch<strategy<mesh<dp>, nccl>>({.dp = 2}, [](context& ctx) {
    float mine = float(ctx.rank().here()) + 1, sum = 0;
    ctx.world.all_reduce(&mine, &sum, 1, dtype::f32, reduction::sum).wait();
    CHECK(sum == 3);
  });
  all_ended();
}

TEST_CASE("nccl: memory is registered once with each communicator that moves it, and goes when the rank frees it") {
  if (!enough(3)) return;
  const watchdog guard("registered memory", 300);
  const memory_source source = nccl::registered_memory();
  std::vector<std::unique_ptr<arena>> kept(3);  // they end when the launch has
  const nccl_counts before;
  nccl_counts first, later, last;
  on_ranks(3, [&](any_communicator& all, gpu::stream& q) {
    const int r = all.rank();
    const queue_ref order(q);
    any_communicator ends = all.split(r == 1 ? 1 : 0, r, "ends");  // ranks 0 and 2; 1 alone
    auto& memory = kept[static_cast<std::size_t>(r)] = std::make_unique<arena>(source);
    const auto array = [&](std::int64_t bytes) {
      return memory->allocate(static_cast<std::size_t>(bytes), weft::memory::buffers);
    };
    std::vector<storage> arrays;
    const auto use_all = [&] {
      const auto x = reinterpret_cast<float*>(arrays[0].data()), y = reinterpret_cast<float*>(arrays[1].data());
      q.zero(x, 1200), q.zero(y, 1200);
      all.all_reduce(x, y, 100, dtype::f32, reduction::sum).wait(order);
      all.reduce_scatter(x, y, 100, dtype::f32, reduction::sum).wait(order);
      all.all_gather(x, y, 400).wait(order);
      all.all_to_all(x, y, 400).wait(order);
      all.broadcast(x, 400, 1).wait(order);
      const std::int64_t sent[3] = {0, 400, 0}, received[3] = {r == 1 ? 400 : 0, r == 1 ? 400 : 0, r == 1 ? 400 : 0};
      all.all_to_allv(x, sent, y, received).wait(order);
      ends.all_reduce(x, y, 100, dtype::f32, reduction::sum).wait(order);
      request out = all.send(x, 400, (r + 1) % 3, 0), in = all.recv(y, 400, (r + 2) % 3, 0);
      out.wait(order), in.wait(order);
      q.synchronize();
      all.host().barrier().wait();
    };
    const auto count = [&](nccl_counts& at) {
      if (r == 0) at = nccl_counts();
      all.host().barrier().wait();
    };
    arrays = {array(1200), array(1200)};
    use_all(), count(first);
    CHECK(memory->ledger().reserved == std::size_t{8} << 20);
    for (int i = 0; i < 5; ++i) use_all();
    count(later);
    arrays = {array(1200), array((std::int64_t{9} << 20) + 1)};  // in a chunk of its own, that comes now
    CHECK(memory->ledger().reserved == std::size_t{18} << 20);   // a multiple of 2 MiB
    use_all(), count(last);
    floats passing(q, 100, 1, source);  // its memory goes before the launch ends
    all.all_reduce(passing.data(), passing.data(), 100, dtype::f32, reduction::sum).wait(order);
    CHECK(passing.all()[99] == 3);
    if (r == 2) memory.reset();
  });
  all_ended();
  if (!of_stand_in<int()>("weft_nccl_live")) return;
  CHECK(first.registrations - before.registrations == 3 + 2);  // of three ranks, and of two
  CHECK(later.registrations == first.registrations);
  CHECK(last.registrations - later.registrations == 3 + 2);
  CHECK(last.in_registered - before.in_registered == last.operations - before.operations);
  CHECK(nccl_counts().registrations - last.registrations == 3);
}

TEST_CASE("nccl: an operation on registered memory of some ranks and other memory of others is refused") {
  if (!enough(3)) return;
  const watchdog guard("memory of two kinds", 300);
  const auto said = [](bool sends) {
    return said_by([&] {
      on_ranks(3, [&](any_communicator& all, gpu::stream& q) {
        const int r = all.rank();
        floats x(q, 64, 1, r == 1 ? gpu::device_memory() : nccl::registered_memory());
        if (!sends) return all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum).wait(queue_ref(q));
        if (r == 0) all.send(x.data(), 256, 1, 0).wait(queue_ref(q));
        if (r == 1) all.recv(x.data(), 256, 0, 0).wait(queue_ref(q));
      });
    });
  };
  CHECK(said(false) ==
        "rank 0 calls all_reduce with an array in registered memory, and rank 1 with one that isn't: NCCL takes all or "
        "none; give every rank its arrays from registered_memory()");
  CHECK(said(true).find("rank 0 calls send with an array in registered memory, and rank 1 with one") == 0);
  all_ended();
}

TEST_CASE("nccl: a registration that fails, an NCCL that does, and ranks that throw leave registered memory free") {
  auto* const fail_registration = of_stand_in<void()>("weft_nccl_fail_registration");
  auto* const fail_after = of_stand_in<void(int, int)>("weft_nccl_fail_after");
  if (!fail_registration || !enough(3)) return;
  const watchdog guard("failures with registered memory", 300);
  const auto said = [](int thrower) {
    return said_by([&] {
      on_ranks(3, [&](any_communicator& all, gpu::stream& q) {
        floats x(q, 64, 1, nccl::registered_memory()), y(q, 64, 1, nccl::registered_memory());
        for (int i = 0; i < 4; ++i) {
          request sum = all.all_reduce(x.data(), y.data(), 64, dtype::f32, reduction::sum);
          require(all.rank() != thrower || i < 2, "the disk is full");
          sum.wait(queue_ref(q));
        }
        q.synchronize();
      });
    });
  };
  fail_registration();
  const std::string words = said(-1);
  CHECK(words.find("ncclCommRegister failed: unhandled system error") == 0);
  fail_after(2, 0);
  CHECK(said(-1).find("remote process exited or there was a network error (NCCL error 6)") != std::string::npos);
  CHECK(said(1) == "the disk is full");
  CHECK(said(-1) == "nothing");
  all_ended();
}

TEST_CASE("nccl: registered memory that the GPU doesn't have, and a launch whose memory can't be registered") {
  if (!enough(2)) return;
  CHECK(said_by([] {
          arena(nccl::registered_memory()).allocate(std::size_t{1} << 46, weft::memory::buffers);
        }).find("out of memory: the arena holds 0 MiB and asked for 67108864 MiB more") == 0);
  CHECK(said_by([] { launch<strategy<mesh<dp>, nccl>>({.dp = 2}, [](context&) {}, {.registered_buffers = true}); }) ==
        "launch_options.registered_buffers is on, and this strategy's communicator registers no memory of its "
        "backend's; leave it off, or take nccl or nccl_mpi beside cuda_backend");
  setenv("NCCL_LOCAL_REGISTER", "0", 1);  // NCCL's own way off
  const nccl_counts before;
  on_ranks(2, [](any_communicator& all, gpu::stream& q) {
    floats x(q, 64, 1, nccl::registered_memory());
    all.all_reduce(x.data(), x.data(), 64, dtype::f32, reduction::sum).wait(queue_ref(q));
    CHECK(x.all()[5] == 2);
  });
  unsetenv("NCCL_LOCAL_REGISTER");
  CHECK(nccl_counts().registrations == before.registrations);
  all_ended();
}
