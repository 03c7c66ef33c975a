// Operations ordered behind a queue: they run when their turn comes, whatever the host does meanwhile.
#include <deque>
#include <functional>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <weft/comm/any.hpp>
#include <weft/comm/threads.hpp>

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

}  // namespace

TEST_CASE("an operation runs after the kernels before it and before those behind it, and the host waits for nothing") {
  const watchdog guard("operations behind a queue", 300);
  threads::launch(4, [](threads& world) { sums_behind_kernels(world); });
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
