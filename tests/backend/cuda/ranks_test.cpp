// Ranks that are threads over one device's memory: the laws of communicators, behind queues that run as late as they
// may; and what goes wrong. The device is the host (lazy_queue.hpp).
#include <doctest/doctest.h>

#include <weft/comm/any.hpp>
#include <weft/comm/traced.hpp>
#include <weft/parallel/launch.hpp>
#include <weft/testing/communicator.hpp>

#include "../../comm/watch.hpp"
#include "../../said_by.hpp"
#include "../../sample.hpp"
#include "in_device_memory.hpp"
#include "lazy_queue.hpp"

using namespace weft;
using namespace weft_test;

namespace {

/// n floats of the pretended device.
struct device_floats {
  explicit device_floats(std::int64_t n)
      : bytes(static_cast<std::size_t>(n) * sizeof(float)), data(static_cast<float*>(source.allocate(bytes))) {}
  device_floats(const device_floats&) = delete;
  ~device_floats() { source.release(data); }
  memory_source source = pretended_memory::source();
  std::size_t bytes;
  float* data;
};

template <class F>
void kernel(lazy_queue& q, device_floats& x, F f) {
  q.enqueue([&x, f] {
    for (float* e = x.data; e != x.data + x.bytes / sizeof(float); ++e) *e = f(*e);
  });
}

}  // namespace

TEST_CASE("ranks on one device: the laws of communicators") {
  for (const int ranks : {1, 2, 3, 5}) weft::testing::check_communicator<in_device_memory<lazy_cuda_backend>>(ranks);
}

TEST_CASE(
    "ranks on one device: operations run between the kernels before and behind them, and the host waits for nothing") {
  const watchdog guard("operations on a device", 300);
  threads::launch(4, [](threads& world) {
    lazy_queue q;
    any_communicator all = any_communicator(world).behind(queue_ref(q));
    any_communicator pairs = all.split(world.rank() % 2, world.rank(), "pairs");
    device_floats x(100), y(100), z(400), from_left(100), of_pair(100);
    q.waits = 0;
    const float own = float(world.rank());
    const queue_ref order(q);
    kernel(q, x, [own](float) { return own + 1; });
    all.all_reduce(x.data, y.data, 100, dtype::f32, reduction::sum).wait(order);
    kernel(q, y, [](float e) { return 2 * e; });
    request sent = all.send(y.data, 400, (world.rank() + 1) % 4, 3);
    request received = all.recv(from_left.data, 400, (world.rank() + 3) % 4, 3);
    request summed = pairs.all_reduce(y.data, of_pair.data, 100, dtype::f32, reduction::sum);
    summed.wait(order), received.wait(order), sent.wait(order);
    kernel(q, x, [own](float) { return 10 * own; });
    all.all_gather(x.data, z.data, 400).wait(order);
    kernel(q, x, [](float) { return -1.f; });  // an input may be used again by a kernel
    std::int64_t mine = 1, ranks = 0;          // in the host's memory
    all.host().all_reduce(&mine, &ranks, 1, dtype::i64, reduction::sum).wait();
    CHECK(ranks == 4);
    CHECK(q.waits == 0);
    all.barrier().wait();
    q.synchronize();
    CHECK(y.data[99] == 20);
    CHECK(of_pair.data[1] == 40);
    CHECK(z.data[250] == 20);
    CHECK(from_left.data[7] == 20);
    CHECK(x.data[0] == -1);
  });
}

TEST_CASE(
    "ranks on one device: who waits without a queue has what was sent, and traces are of the device's memory too") {
  const watchdog guard("waits on a device", 300);
  for (const int ranks : {1, 2}) {
    trace_log outer(ranks);
    traced<threads>::launch(ranks, [&](traced<threads>& world) {
      lazy_queue q;
      any_communicator all = any_communicator(traced<any_communicator>(any_communicator(world), outer));
      all = all.behind(queue_ref(q));
      device_floats x(8), y(16);
      kernel(q, x, [&](float) { return 3.f; });
      all.all_gather(x.data, y.data, 32).wait(queue_ref());
      CHECK(y.data[0] == 3);
      CHECK(y.data[8 * ranks - 1] == 3);
      std::int64_t mine = 2, sum = 0;
      all.host().all_reduce(&mine, &sum, 1, dtype::i64, reduction::sum).wait();
      CHECK(sum == 2 * ranks);
    });
  }
}

TEST_CASE("ranks on one device that call different collectives, or leave one, end with the sentences of threads") {
  const watchdog guard("misuses on a device", 300);
  const auto said = said_by([] {
    threads::launch(2, [](threads& world) {
      lazy_queue q;
      any_communicator all = any_communicator(world).behind(queue_ref(q));
      device_floats x(64);
      if (world.rank() == 0)
        all.all_reduce(x.data, x.data, 64, dtype::f32, reduction::sum).wait();
      else
        all.all_reduce(x.data, x.data, 32, dtype::f32, reduction::sum).wait();
    });
  });
  CHECK(said.find("rank 0 calls all_reduce(64 fp32, sum) of a device's memory; rank 1 calls all_reduce(32") !=
        std::string::npos);
  const auto mixed = said_by([] {
    threads::launch(2, [](threads& world) {
      lazy_queue q;
      any_communicator all = any_communicator(world).behind(queue_ref(q));
      device_floats x(64);
      (world.rank() == 0 ? all : all.host()).all_reduce(x.data, x.data, 64, dtype::f32, reduction::sum).wait();
    });
  });
  CHECK(mixed.find(
            "rank 0 calls all_reduce(64 fp32, sum) of a device's memory; rank 1 calls all_reduce(64 fp32, sum).") !=
        std::string::npos);
  const auto thrown = said_by([] {
    threads::launch(3, [](threads& world) {
      lazy_queue q;
      any_communicator all = any_communicator(world).behind(queue_ref(q));
      device_floats x(64), y(64);
      request first = all.all_reduce(x.data, y.data, 64, dtype::f32, reduction::sum);
      require(world.rank() != 1, "the disk is full");
      all.all_reduce(y.data, x.data, 64, dtype::f32, reduction::sum).wait();
    });
  });
  CHECK(thrown == "the disk is full");
}

TEST_CASE("a device's error ends all ranks: what a mover throws") {
  const watchdog guard("a device that fails", 300);
  const auto said = said_by([] {
    threads::launch(3, [](threads& world) {
      lazy_queue q;
      any_communicator all = any_communicator(world).behind(queue_ref(q));
      device_floats x(64);
      float on_host[64] = {};
      float* const data = world.rank() == 2 ? on_host : x.data;
      all.broadcast(data, 256, 0).wait();
    });
  });
  CHECK(said == "a device copies what isn't in its memory");
}

TEST_CASE("a communicator of the host's memory is refused on a device, but for one rank") {
  using S = strategy<mesh<dp>, lazy_cuda_backend, single_rank>;
  launch<S>({}, [](context& ctx) { CHECK(ctx.size().here() == 1); });
  struct on_host_only : comm_operations<on_host_only> {
    explicit on_host_only(threads t) : inner(std::move(t)) {}
    int rank() const { return inner.rank(); }
    int size() const { return inner.size(); }
    request post(const comm_call& call) { return inner.post(call); }
    on_host_only split(int color, int key, const char* name) { return on_host_only(inner.split(color, key, name)); }
    static void launch(int ranks, const std::function<void(on_host_only&)>& f) {
      threads::launch(ranks, [&](threads& world) {
        on_host_only own(world);
        f(own);
      });
    }
    threads inner;
  };
  const auto said =
      said_by([] { launch<strategy<mesh<dp>, lazy_cuda_backend, on_host_only>>({.dp = 2}, [](context&) {}); });
  CHECK(said.find("communicator moves data in the host's memory") != std::string::npos);
}

TEST_CASE(
    "uploads go through a ring: the host waits for none, and the first of it is used again once it has been copied") {
  using ring = weft::gpu::staged_uploads<lazy_queue::event, lazy_queue::pinned>;
  lazy_queue q;
  constexpr int count = 3 * int(ring::places) + 1;
  std::vector<std::unique_ptr<device_floats>> all;
  float own[2000];
  for (int i = 0; i < count; ++i) {
    const auto n = static_cast<std::int64_t>(i % 3 == 2 ? 2000 : 1 + i);  // some places have to grow
    all.push_back(std::make_unique<device_floats>(n));
    std::fill_n(own, n, float(i + 1));
    const auto to_come = q.to_come();
    q.upload(own, all.back()->data, all.back()->bytes);
    std::fill_n(own, n, -1.f);
    CHECK(q.to_come() == (i < int(ring::places) ? to_come + 1 : ring::places));
  }
  CHECK(q.waits == 0);
  q.upload(own, all[0]->data, 0);
  CHECK(q.to_come() == ring::places);
  q.synchronize();
  for (int i = 0; i < count; ++i) {
    CAPTURE(i);
    const device_floats& x = *all[static_cast<std::size_t>(i)];
    CHECK(x.data[0] == float(i + 1));
    CHECK(x.data[x.bytes / sizeof(float) - 1] == float(i + 1));
  }
}

TEST_CASE("what is too large for the ring is waited for, and a ring that ends has been copied") {
  constexpr std::size_t most = weft::gpu::staged_uploads<lazy_queue::event, lazy_queue::pinned>::most;
  const auto n = static_cast<std::int64_t>(most / sizeof(float));
  device_floats fits(n), large(n + 1), small(1);
  std::vector<float> own(static_cast<std::size_t>(n) + 1, 2.f);
  {
    lazy_queue q;
    CHECK(q.pinned_bytes() == 0);
    q.upload(own.data(), fits.data, fits.bytes);
    CHECK(q.waits == 0);
    CHECK(q.pinned_bytes() == most);
    q.upload(own.data(), large.data, large.bytes);
    CHECK(q.waits == 1);
    CHECK(q.pinned_bytes() == most);  // it isn't staged
    own[0] = 5;
    q.upload(own.data(), small.data, small.bytes);
    CHECK(q.to_come() == 1);
    CHECK(q.pinned_bytes() == most + 4096);  // the least that a place takes
    const std::size_t held = q.pinned_bytes();
    {
      const lazy_queue::landing here(q, 24);
      CHECK(q.pinned_bytes() == held + 24);
    }
    CHECK(q.pinned_bytes() == held);
    using ring = weft::gpu::staged_uploads<lazy_queue::event, lazy_queue::pinned>;
    for (std::size_t i = 2; i < ring::places + 2; ++i) q.upload(own.data(), fits.data, i < ring::places ? 4 : 8192);
    CHECK(q.pinned_bytes() ==
          most + (ring::places - 2) * 4096 + 8192);  // a small place is taken anew, a large one isn't
  }
  CHECK(fits.data[n - 1] == 2);
  CHECK(large.data[n] == 2);
  CHECK(small.data[0] == 5);
}

TEST_CASE("what is on its way to the host is waited for, and nothing behind it") {
  lazy_queue q;
  device_floats x(2);
  lazy_queue::landing here(q, x.bytes);
  kernel(q, x, [](float) { return 3.f; });
  here.fetch(x.data);
  kernel(q, x, [](float) { return 4.f; });
  CHECK(static_cast<const float*>(here.wait())[1] == 3);
  CHECK(q.to_come() == 1);
  CHECK(q.waits == 0);
  CHECK(static_cast<const float*>(here.wait())[0] == 3);
  here.fetch(x.data);
  CHECK(static_cast<const float*>(here.wait())[0] == 4);
  here.fetch(x.data);  // ends before it is waited for
}
