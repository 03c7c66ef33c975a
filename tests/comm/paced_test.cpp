// Paced: the numbers of the communicator inside, when its links bring them, and not later for being waited for late. On
// virtual clocks; by the machine's it can only be said that nothing comes sooner.
#include "weft/comm/paced.hpp"

#include <doctest/doctest.h>

#include "sample.hpp"
#include "weft/comm/threads.hpp"
#include "weft/testing/communicator.hpp"

namespace {

using weft::virtual_clock;
using namespace std::chrono_literals;

struct quick {
  static constexpr weft::link_speed of(std::string_view) { return {1, 1e6}; }
};
// Along tp 20 ms, and 1 MB/s: 10 ms for 10,000 bytes.
struct slow {
  static constexpr weft::link_speed of(std::string_view axis) {
    return axis == "tp" ? weft::link_speed{20e3, 1} : axis == "far" ? weft::link_speed{500e3} : weft::link_speed{};
  }
};
struct for_ever {
  static constexpr weft::link_speed of(std::string_view axis) {
    return axis == "inf" ? weft::link_speed{__builtin_inf()} : weft::link_speed{1e300, 1e-300};
  }
};
struct nonsense {
  static constexpr weft::link_speed of(std::string_view) { return {-1, 1}; }
};
using slow_threads = weft::paced<weft::threads, slow, virtual_clock>;

static_assert(weft::communicator_policy<slow_threads>);

// When an operation is complete that rank 2 posts 30 ms after the others, in milliseconds; the same on every rank.
template <class F>
double ends(int ranks, F&& f) {
  std::atomic<std::int64_t> end{-1};
  slow_threads::launch(ranks, [&](slow_threads& world) {
    slow_threads tp = world.split(0, world.rank(), "tp");
    CHECK(virtual_clock::now() == 0);  // a split takes no time
    if (tp.rank() == 2) virtual_clock::advance(30ms);
    f(tp).wait();
    std::int64_t first = -1;
    if (!end.compare_exchange_strong(first, virtual_clock::now())) CHECK(first == virtual_clock::now());
  });
  return double(end) / 1e6;
}

}  // namespace

TEST_CASE("paced threads obey the laws of a communicator") {
  for (int ranks : weft_test::sampled_ranks({1, 2, 3, 8}))
    weft::testing::check_communicator<weft::paced<weft::threads, quick>>(ranks, 40u);
  weft::testing::check_communicator<weft::paced<weft::threads, quick, virtual_clock>>(3, 40u);
}

TEST_CASE("paced: as late as latency and bytes say, from the last rank's post on") {
  static std::byte in[4][40000], out[4][40000];
  // 2 (n-1)/n of 10,000 bytes: 15 ms.
  CHECK(ends(4, [&](slow_threads& tp) {
          return tp.all_reduce(in[tp.rank()], out[tp.rank()], 2500, weft::dtype::f32, weft::reduction::sum);
        }) == 30 + 20 + 15);
  // 3/4 of 40,000 bytes: 30 ms.
  CHECK(ends(4, [&](slow_threads& tp) { return tp.all_gather(in[tp.rank()], out[tp.rank()], 10000); }) == 30 + 20 + 30);
  CHECK(ends(4, [&](slow_threads& tp) {
          return tp.reduce_scatter(in[tp.rank()], out[tp.rank()], 2500, weft::dtype::f32, weft::reduction::sum);
        }) == 30 + 20 + 30);
  CHECK(ends(4, [&](slow_threads& tp) { return tp.all_to_all(in[tp.rank()], out[tp.rank()], 10000); }) == 30 + 20 + 30);
  CHECK(ends(4, [&](slow_threads& tp) { return tp.broadcast(out[tp.rank()], 40000, 1); }) == 30 + 20 + 40);
  CHECK(ends(4, [&](slow_threads& tp) { return tp.barrier(); }) == 30 + 20);
}

TEST_CASE("paced: what was sent arrives so long after the send, however long it was awaited") {
  slow_threads::launch(2, [](slow_threads& world) {
    slow_threads tp = world.split(0, world.rank(), "tp");
    std::byte buffer[5000] = {};
    if (tp.rank() == 0) {
      virtual_clock::advance(60ms);  // the other waits since 0
      tp.send(buffer, 5000, 1, 0).wait();
    } else {
      tp.recv(buffer, 5000, 0, 0).wait();
    }
    CHECK(virtual_clock::now() == std::chrono::nanoseconds(85ms).count());
  });
}

TEST_CASE("paced: time that a rank computes meanwhile is not waited for again") {
  slow_threads::launch(2, [](slow_threads& world) {
    slow_threads far = world.split(0, world.rank(), "far");
    double mine = far.rank(), sum = 0;
    weft::request r = far.all_reduce(&mine, &sum, 1, weft::dtype::f64, weft::reduction::sum);
    virtual_clock::advance(far.rank() == 0 ? 510ms : 200ms);
    if (far.rank() == 0)
      while (!r.test()) std::this_thread::yield();
    else
      r.wait();
    CHECK(sum == 1);
    CHECK(virtual_clock::now() == std::chrono::nanoseconds(far.rank() == 0 ? 510ms : 500ms).count());
  });
}

TEST_CASE("paced: by the machine's clock nothing comes sooner, for those who wait and for those who ask") {
  using really_slow = weft::paced<weft::threads, slow>;
  really_slow::launch(2, [](really_slow& world) {
    really_slow tp = world.split(0, world.rank(), "tp");
    for (const bool asks : {false, true}) {
      const auto begin = std::chrono::steady_clock::now();
      weft::request r = tp.barrier();
      if (asks)
        while (!r.test()) std::this_thread::yield();
      else
        r.wait();
      CHECK(std::chrono::steady_clock::now() - begin >= 20ms);
    }
  });
}

TEST_CASE("paced: groups of one rank, and other axes, are as fast as before") {
  slow_threads::launch(2, [](slow_threads& world) {
    slow_threads alone = world.split(world.rank(), 0, "tp");
    weft::request r = alone.barrier();
    CHECK(r.test());
  });
  using wrong = weft::paced<weft::threads, nonsense>;
  CHECK_THROWS_WITH_AS(wrong::launch(2, [](wrong&) {}),
                       doctest::Contains("the link of the group world has a latency of -1"), weft::failure);
}

TEST_CASE("paced: a speed that no clock can count is slow, not quick") {
  using slowest = weft::paced<weft::threads, for_ever>;
  slowest::launch(1, [](slowest&) {});
  try {
    slowest::launch(2, [](slowest& world) {
      float x = 1;
      weft::request r = world.all_reduce(&x, &x, 1, weft::dtype::f32, weft::reduction::sum);
      CHECK_FALSE(r.test());
      throw weft::failure("enough");
    });
    CHECK(false);
  } catch (const weft::failure& e) {
    CHECK(e.what() == std::string("enough"));
  }
  CHECK_THROWS_AS(slowest::launch(2, [](slowest& world) { world.split(0, world.rank(), "inf"); }), weft::failure);
}

TEST_CASE("paced: a rank that waits in vain is told for what") {
  std::string said;
  try {
    slow_threads::launch(2, [](slow_threads& world) {
      float x = 1;
      if (world.rank() == 0) world.all_reduce(&x, &x, 1, weft::dtype::f32, weft::reduction::sum, {"the answer"}).wait();
    });
  } catch (const weft::failure& e) {
    said = e.what();
  }
  CAPTURE(said);
  CHECK(said.find("all_reduce(1 fp32, sum)") != std::string::npos);
  CHECK(said.find("the answer") != std::string::npos);
}
