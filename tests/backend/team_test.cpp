// The thread team and scratch memory.
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <weft/backend/cpu/team.hpp>

using namespace weft;
using namespace weft::cpu;

TEST_CASE("parallel_for runs every task exactly once") {
  for (int size : {1, 2, 3, 8}) {
    team cores(size);
    CHECK(cores.size() == size);
    for (std::int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks));
      cores.parallel_for(tasks, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
      for (auto& run : runs) CHECK(run == 1);
    }
  }
}

TEST_CASE("a team of one runs in order on the caller") {
  team alone;
  std::vector<std::int64_t> order;
  const auto caller = std::this_thread::get_id();
  alone.parallel_for(5, [&](std::int64_t i) {
    CHECK(std::this_thread::get_id() == caller);
    order.push_back(i);
  });
  CHECK(order == std::vector<std::int64_t>{0, 1, 2, 3, 4});
}

TEST_CASE("what tasks wrote is seen after the loop, through many short loops") {
  team cores(3);
  std::vector<std::int64_t> values(64, 0);
  for (int round = 1; round <= 3000; ++round) {
    cores.parallel_for(64, [&](std::int64_t i) { values[static_cast<std::size_t>(i)] += i; });
    if (round % 500 == 0) {
      std::int64_t total = 0;
      for (std::int64_t value : values) total += value;
      CHECK(total == round * 63 * 64 / 2);
    }
  }
}

TEST_CASE("the workers take part") {
  team cores(2);
  std::atomic<int> here{0};  // both tasks wait for each other: this ends only if two threads run them
  cores.parallel_for(2, [&](std::int64_t) {
    ++here;
    while (here < 2) std::this_thread::yield();
  });
  CHECK(here == 2);
}

TEST_CASE("an exception reaches the caller, and the team works on") {
  for (int size : {1, 4}) {
    team cores(size);
    std::string message;
    try {
      cores.parallel_for(200, [](std::int64_t i) { require(i != 17, "task ", i, " failed"); });
    } catch (const failure& thrown) {
      message = thrown.what();
    }
    CHECK(message == "task 17 failed");
    std::atomic<int> runs{0};
    cores.parallel_for(50, [&](std::int64_t) { ++runs; });
    CHECK(runs == 50);
  }
}

TEST_CASE("a loop inside a task of the same team is a plain loop") {
  team cores(2);
  std::atomic<int> runs{0};
  cores.parallel_for(6, [&](std::int64_t) {
    const auto outer = std::this_thread::get_id();
    cores.parallel_for(5, [&](std::int64_t) { runs += std::this_thread::get_id() == outer; });
  });
  CHECK(runs == 30);
}

TEST_CASE("teams of several rank threads run side by side") {
  std::atomic<std::int64_t> total{0};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.emplace_back([&] {
      team cores(2);
      for (int round = 0; round < 200; ++round) cores.parallel_for(10, [&](std::int64_t i) { total += i; });
    });
  for (auto& ctx : ranks) ctx.join();
  CHECK(total == 4 * 200 * 45);
}

TEST_CASE("what one task takes of scratch, every thread has at hand in the next loop") {
  team cores(3);
  cores.parallel_for(3, [](std::int64_t i) {
    if (i == 1) scratch(100000).as<char>()[99999] = 1;
  });
  std::atomic<int> short_of{0};
  cores.parallel_for(100, [&](std::int64_t) { short_of += scratch::reserved() < 100000; });
  CHECK(short_of == 0);
}

TEST_CASE("a team without threads is refused") { CHECK_THROWS_AS(team(0), failure); }

TEST_CASE("scratch is aligned, nests, and stops allocating once it is warm") {
  std::thread([] {  // a fresh thread: a fresh stack
    CHECK(scratch::reserved() == 0);
    const auto use = [](std::size_t bytes) {
      scratch outer(bytes);
      CHECK(reinterpret_cast<std::uintptr_t>(outer.data()) % 64 == 0);
      auto* p = outer.as<unsigned char>();
      p[0] = 1, p[bytes - 1] = 2;
      {
        scratch inner(3 * bytes), another(10);
        CHECK(reinterpret_cast<std::uintptr_t>(inner.data()) % 64 == 0);
        CHECK(reinterpret_cast<std::uintptr_t>(another.data()) % 64 == 0);
        for (std::size_t i = 0; i < 3 * bytes; ++i) inner.as<unsigned char>()[i] = 9;
        another.as<unsigned char>()[9] = 8;
      }
      CHECK(p[0] == 1);
      CHECK(p[bytes - 1] == 2);
      return outer.data();
    };
    use(1000);
    void* const warm = use(1000);  // the blocks of the first round are one now
    const std::size_t held = scratch::reserved();
    CHECK(held >= 4000);
    for (int i = 0; i < 10; ++i) CHECK(use(1000) == warm);
    for (int i = 0; i < 10; ++i) use(500);
    CHECK(scratch::reserved() == held);
    use(100000);
    use(100000);
    CHECK(scratch::reserved() >= 400000);
  })
      .join();
}
