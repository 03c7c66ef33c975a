// Operations ordered behind a queue: they run when their turn comes, whatever the host does meanwhile.
#include <deque>
#include <functional>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <weft/comm/any.hpp>
#include <weft/comm/checked.hpp>
#include <weft/comm/faulty.hpp>
#include <weft/comm/paced.hpp>
#include <weft/comm/threads.hpp>
#include <weft/comm/traced.hpp>

#include "watch.hpp"

using namespace weft;

namespace {

/// Runs what it was given when it is waited for, and not before.
struct lazy_queue {
  static constexpr bool runs_behind = true;
  void enqueue(std::function<void()> f) { given.push_back(std::move(f)); }
  void synchronize() {
    ++waits;
    for (; !given.empty(); given.pop_front()) given.front()();
  }
  std::deque<std::function<void()>> given;
  int waits = 0;
};
struct prompt_queue {
  static constexpr bool runs_behind = false;
  template <class F>
  void enqueue(F f) {
    f();
  }
  void synchronize() {}
};

/// A communicator that takes the queue itself, as one over a device's library does.
class on_stream : public comm_operations<on_stream> {
 public:
  explicit on_stream(threads under) : under_(std::move(under)) {}
  bool takes_queue(const queue_ref&) const { return true; }
  int rank() const { return under_.rank(); }
  int size() const { return under_.size(); }
  request post(const comm_call& call) {
    lazy_queue& q = call.queue.as<lazy_queue>();
    q.enqueue([this, call] { under_.post(call).wait(); });
    return {};
  }
  on_stream split(int color, int key, const char* name) { return on_stream(under_.split(color, key, name)); }
  threads host() const { return under_; }

 private:
  threads under_;
};

/// A kernel: every element becomes f of it.
template <class F>
void kernel(lazy_queue& q, std::vector<float>& x, F f) {
  q.enqueue([&x, f] {
    for (float& e : x) e = f(e);
  });
}

template <class C>
void sums_behind_kernels(C& world) {
  lazy_queue q;
  any_communicator all = any_communicator(world).behind(queue_ref(q));
  any_communicator pairs = all.split(world.rank() % 2, world.rank(), "pairs");
  q.waits = 0;
  std::vector<float> x(100, 1), y(100, 0), z(100, 0);
  const float own = float(world.rank());
  kernel(q, x, [own](float e) { return e + own; });
  all.all_reduce(x.data(), y.data(), 100, dtype::f32, reduction::sum).wait(queue_ref(q));
  kernel(q, y, [](float e) { return 2 * e; });
  pairs.all_reduce(y.data(), z.data(), 100, dtype::f32, reduction::sum).wait(queue_ref(q));
  kernel(q, x, [](float) { return -1.f; });  // an input may be used again by a kernel
  CHECK(y[0] == 0);
  CHECK(q.waits == 0);
  std::int32_t mine = 1, ranks = 0;  // in the host's memory
  all.host().all_reduce(&mine, &ranks, 1, dtype::i32, reduction::sum).wait();
  CHECK(ranks == 4);
  q.synchronize();
  CHECK(y[99] == 2 * (1 + 2 + 3 + 4));
  CHECK(z[50] == 2 * 2 * (1 + 2 + 3 + 4));
  CHECK(x[0] == -1);
}

// Of links that take 20 ms, by virtual clocks; of ranks of which rank 1 has the first bit of its plan's flipped.
struct far_apart {
  static constexpr link_speed of(std::string_view) { return {20e3}; }
};
struct one_bit {
  static planned_faults of(int rank) { return {.flips_at = rank == 1 ? 0 : -1}; }
};
struct no_faults {
  static planned_faults of(int) { return {}; }
};
template <class C>
using far = paced<C, far_apart, virtual_clock>;

/// A communicator over threads that takes the queue: a wait by the queue is nothing, since what is given behind it runs
/// behind it, and the host's is for all that the queue has.
class on_device : public comm_operations<on_device> {
 public:
  explicit on_device(threads under) : under_(std::move(under)), waits_(std::make_shared<by_queue>()) {}
  bool takes_queue(const queue_ref&) const { return true; }
  int rank() const { return under_.rank(); }
  int size() const { return under_.size(); }
  request post(const comm_call& call) {
    if (!call.queue.runs_behind()) return under_.post(call);
    waits_->queue = &call.queue.as<lazy_queue>();
    waits_->queue->enqueue([this, call] { under_.post(call).wait(); });
    return {*waits_, 0};
  }
  on_device split(int color, int key, const char* name) { return on_device(under_.split(color, key, name)); }

 private:
  struct by_queue final : completion {
    void wait(std::uint64_t) override { queue->synchronize(); }
    void make_wait(std::uint64_t, const queue_ref&) override {}
    bool test(std::uint64_t) override { return queue->given.empty(); }
    void abandon(std::uint64_t) noexcept override {}
    lazy_queue* queue = nullptr;
  };
  threads under_;
  std::shared_ptr<by_queue> waits_;
};

/// y = the sum of the ranks' x + 1, by a call that names the queue, and z = 2 y by the queue itself.
template <class C>
struct queued_sum {
  queued_sum(C& c, lazy_queue& q) {
    kernel(q, x, [](float e) { return e + 1; });
    request r = c.post({.operation = comm_operation::all_reduce,
                        .type = dtype::f32,
                        .in = x.data(),
                        .out = y.data(),
                        .count = std::ssize(x),
                        .queue = queue_ref(q)});
    r.wait(queue_ref(q));
    q.enqueue([this] {
      for (std::size_t i = 0; i < z.size(); ++i) z[i] = 2 * y[i];
    });
    CHECK(q.waits == 0);
    CHECK(y[0] == 0);
  }
  std::vector<float> x = std::vector<float>(8, 1), y = std::vector<float>(8, 0), z = y;
};

}  // namespace

TEST_CASE("an operation runs after the kernels before it and before those behind it, and the host waits for nothing") {
  const watchdog guard("operations behind a queue", 300);
  threads::launch(4, [](threads& world) { sums_behind_kernels(world); });
  traced<threads>::launch(4, [](traced<threads>& world) { sums_behind_kernels(world); });
  far<threads>::launch(4, [](far<threads>& world) { sums_behind_kernels(world); });
  faulty<threads, no_faults>::launch(4, [](faulty<threads, no_faults>& world) { sums_behind_kernels(world); });
  checked<threads>::launch(4, [](checked<threads>& world) { sums_behind_kernels(world); });
}

TEST_CASE("a communicator that takes the queue is given it, and is asked for its host's side") {
  const watchdog guard("operations on a stream", 300);
  threads::launch(4, [](threads& world) {
    on_stream own(world);
    sums_behind_kernels(own);
  });
}

TEST_CASE("sends and receives behind a queue are posted in order and waited for where they are asked to: a ring") {
  const watchdog guard("a ring behind a queue", 300);
  threads::launch(3, [](threads& world) {
    lazy_queue q;
    any_communicator ring = any_communicator(world).behind(queue_ref(q));
    std::vector<float> x(1000, float(world.rank())), y(1000, -1);
    request receive = ring.recv(y.data(), 4000, (world.rank() + 2) % 3, 0);
    request send = ring.send(x.data(), 4000, (world.rank() + 1) % 3, 0);
    send.wait(queue_ref(q));
    receive.wait(queue_ref(q));
    kernel(q, y, [](float e) { return e + 10; });
    CHECK(q.waits == 0);
    ring.barrier().wait();  // the host does
    CHECK(q.waits == 1);
    CHECK(y[999] == 10 + (world.rank() + 2) % 3);
  });
}

TEST_CASE("behind a queue that doesn't run behind, everything is as without") {
  prompt_queue q;
  const queue_ref order(q);
  CHECK(!order.runs_behind());
  threads::launch(2, [&](threads& world) {
    any_communicator all = any_communicator(world).behind(order);
    float x = 1, y = 0;
    all.all_reduce(&x, &y, 1, dtype::f32, reduction::sum).wait(order);
    CHECK(y == 2);
  });
}

TEST_CASE("where the communicator inside takes the queue, decorators have the queue wait, too") {
  const watchdog guard("decorators on a queue", 300);
  trace_log log(2);
  threads::launch(2, [&](threads& world) {
    on_device under(world);
    {
      lazy_queue q;
      traced<on_device> own(under, log);
      const queued_sum sum(own, q);
      REQUIRE(log.events(own.rank()).size() == 1);
      const trace_event before = log.events(own.rank())[0];
      CHECK(before.queue_waits);
      CHECK(before.wait_us >= before.begin_us);
      CHECK(before.end_us == -1);  // the queue hasn't come to it
      q.synchronize();
      CHECK(sum.z[7] == 8);
      CHECK(log.events(own.rank())[0].end_us >= before.wait_us);
    }
    {
      lazy_queue q;
      far<on_device> own(under);
      virtual_clock::begin();
      const queued_sum sum(own, q);
      CHECK(virtual_clock::now() == 0);
      q.synchronize();
      CHECK(virtual_clock::now() == 20'000'000);
      CHECK(sum.z[7] == 8);
    }
    {
      lazy_queue q;
      faulty<on_device, one_bit> own(under);
      const queued_sum sum(own, q);
      q.synchronize();
      CHECK((sum.y == std::vector<float>(8, 4)) == (own.rank() == 0));
      for (std::size_t i = 0; i < 8; ++i) CHECK((sum.z[i] == 2 * sum.y[i] || sum.y[i] != sum.y[i]));
    }
  });
}

TEST_CASE("a launch's trace leaves the host's messages behind the queue, if that calls the communicator") {
  const watchdog guard("traced messages of the host", 300);
  trace_log log(2);
  threads::launch(2, [&](threads& world) {
    lazy_queue q;
    any_communicator all =
        any_communicator(traced<any_communicator>(any_communicator(world), log)).behind(queue_ref(q));
    any_communicator host = all.host();
    std::vector<float> x(10, 1);
    kernel(q, x, [](float e) { return e + 1; });
    std::int64_t mine = 1, ranks = 0;
    request r = host.all_reduce(&mine, &ranks, 1, dtype::i64, reduction::sum);
    CHECK(q.waits == 0);
    CHECK(log.events(world.rank()).empty());
    r.wait();
    CHECK(ranks == 2);
    CHECK(x[9] == 2);
    CHECK(log.events(world.rank()).size() == 1);
  });
}

TEST_CASE("a test of what is behind a queue waits for nothing, and says when it is complete") {
  const watchdog guard("tests behind a queue", 300);
  threads::launch(2, [](threads& world) {
    lazy_queue q;
    any_communicator all = any_communicator(world).behind(queue_ref(q));
    float x = 1, y = 0;
    request r = all.all_reduce(&x, &y, 1, dtype::f32, reduction::sum);
    for (int i = 0; i < 3; ++i) CHECK(!r.test());
    CHECK(q.waits == 0);
    CHECK(q.given.size() == 2);  // its post and its end
    q.synchronize();
    CHECK(r.test());
    CHECK(q.waits == 1);
    CHECK(y == 2);
    request again = all.all_reduce(&x, &y, 1, dtype::f32, reduction::sum);
    CHECK(!again.test());
    again.wait();
    CHECK(q.waits == 2);
    // A queue that has failed runs nothing more.
    request never = all.all_reduce(&x, &y, 1, dtype::f32, reduction::sum);
    CHECK(!never.test());
    q.given.clear();
    CHECK_THROWS_WITH_AS(never.test(), "This all_reduce can't finish: its queue failed before it came to it", aborted);
  });
}

TEST_CASE("an operation that an exception leaves behind a queue touches no buffer afterwards, and ends all ranks") {
  const watchdog guard("a send left behind a queue", 300);
  CHECK_THROWS_WITH_AS(threads::launch(2,
                                       [](threads& world) {
                                         lazy_queue q;
                                         any_communicator all = any_communicator(world).behind(queue_ref(q));
                                         if (world.rank() == 1)
                                           return all.barrier().wait();  // which rank 0 never calls
                                         try {
                                           std::vector<float> x(1000, 1);
                                           const request sent = all.send(x.data(), 4000, 1, 0);
                                           throw 5;
                                         } catch (int) {
                                           CHECK(q.given.empty());
                                         }
                                       }),
                       "rank 0 left a collective of group 'world' by an exception.", failure);
}
