// That streams run as late as their waits permit, so that a program without one of its waits sees it.
#include "runtime/streams.hpp"

#include <atomic>
#include <vector>

#include <doctest/doctest.h>

using device::held_lock;

namespace {

struct trial {
  std::mutex lock;
  device::streams streams;
  const int names[2] = {0, 0};
  const void* a = &names[0];
  const void* b = &names[1];
  ~trial() {
    held_lock held(lock);
    streams.stop(held);
  }
};

}  // namespace

TEST_CASE("nothing runs before somebody waits, and then no more than that") {
  trial t;
  held_lock held(t.lock);
  std::vector<int> ran;
  for (int i = 0; i < 4; ++i) t.streams.give(t.a, [&ran, i](held_lock&) { ran.push_back(i); });
  t.streams.give(t.b, [&](held_lock&) { ran.push_back(10); });
  CHECK(ran.empty());  // a download here, without its wait, would read what was there before
  t.streams.finish(held, t.a, 2);
  CHECK(ran == std::vector{0, 1});
  CHECK(t.streams.done(t.a, 2));
  CHECK(!t.streams.done(t.a, 3));
  t.streams.finish(held, t.b);
  CHECK(ran == std::vector{0, 1, 10});
  t.streams.finish_all(held);
  CHECK(ran == std::vector{0, 1, 10, 2, 3});
}

TEST_CASE("a stream that waits for another brings it as far as it waits for") {
  trial t;
  held_lock held(t.lock);
  std::vector<int> ran;
  const auto number = t.streams.give(t.a, [&](held_lock&) { ran.push_back(1); });
  t.streams.give(t.a, [&](held_lock&) { ran.push_back(2); });
  t.streams.give(t.b, [&](held_lock& h) { t.streams.finish(h, t.a, number); });
  t.streams.give(t.b, [&](held_lock&) { ran.push_back(3); });
  t.streams.finish(held, t.b);
  CHECK(ran == std::vector{1, 3});
}

TEST_CASE("a function of the host runs though nobody calls the device, after what was given before it") {
  std::atomic<int> before = 0, seen = -1;
  trial t;
  {
    held_lock held(t.lock);
    t.streams.give(t.a, [&](held_lock&) { before = 1; });
    t.streams.give_host(t.lock, t.a, [&] {
      seen = before.load();
      seen.notify_all();
    });
  }
  seen.wait(-1);
  CHECK(seen == 1);
}
