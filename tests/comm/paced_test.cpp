// Paced: the numbers of the communicator inside, no sooner than its links could bring them, and not later for being
// waited for late.
#include "weft/comm/paced.hpp"

#include <doctest/doctest.h>

#include "weft/comm/threads.hpp"
#include "weft/testing/communicator.hpp"

namespace {

using clock_type = std::chrono::steady_clock;
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
using slow_threads = weft::paced<weft::threads, slow>;

static_assert(weft::communicator_policy<slow_threads>);

// How long an operation took at least, of all ranks: from the last post to the first completion.
template <class F>
clock_type::duration least(int ranks, F&& f) {
  std::atomic<clock_type::rep> last{0}, first{clock_type::time_point::max().time_since_epoch().count()};
  slow_threads::launch(ranks, [&](slow_threads& world) {
    slow_threads tp = world.split(0, world.rank(), "tp");
    weft::request r = [&] {
      for (auto now = clock_type::now().time_since_epoch().count(), seen = last.load(); seen < now;)
        if (last.compare_exchange_weak(seen, now)) break;
      return f(tp);
    }();
    r.wait();
    for (auto now = clock_type::now().time_since_epoch().count(), seen = first.load(); seen > now;)
      if (first.compare_exchange_weak(seen, now)) break;
  });
  return clock_type::duration(first - last);
}

}  // namespace

TEST_CASE("paced threads obey the laws of a communicator") {
  for (int ranks : {1, 2, 3, 8}) weft::testing::check_communicator<weft::paced<weft::threads, quick>>(ranks, 40u);
}

TEST_CASE("paced: no sooner than latency and bytes allow, from the last rank's post on") {
  static std::byte in[4][40000], out[4][40000];
  const auto late = [](int rank) {
    if (rank == 2) std::this_thread::sleep_for(30ms);
  };
  // 2 (n-1)/n of 10,000 bytes: 15 ms.
  CHECK(least(4, [&](slow_threads& tp) {
          late(tp.rank());
          return tp.all_reduce(in[tp.rank()], out[tp.rank()], 2500, weft::dtype::f32, weft::reduction::sum);
        }) >= 35ms);
  // 3/4 of 40,000 bytes: 30 ms.
  CHECK(least(4, [&](slow_threads& tp) { return tp.all_gather(in[tp.rank()], out[tp.rank()], 10000); }) >= 50ms);
  CHECK(least(4, [&](slow_threads& tp) {
          return tp.reduce_scatter(in[tp.rank()], out[tp.rank()], 2500, weft::dtype::f32, weft::reduction::sum);
        }) >= 50ms);
  CHECK(least(4, [&](slow_threads& tp) { return tp.all_to_all(in[tp.rank()], out[tp.rank()], 10000); }) >= 50ms);
  CHECK(least(4, [&](slow_threads& tp) { return tp.broadcast(out[tp.rank()], 40000, 1); }) >= 60ms);
  CHECK(least(4, [&](slow_threads& tp) { return tp.barrier(); }) >= 20ms);
}

TEST_CASE("paced: what was sent arrives so long after the send, however long it was awaited") {
  slow_threads::launch(2, [](slow_threads& world) {
    slow_threads tp = world.split(0, world.rank(), "tp");
    static std::atomic<clock_type::rep> sent;
    std::byte buffer[5000] = {};
    if (tp.rank() == 0) {
      std::this_thread::sleep_for(60ms);  // the other has posted long ago
      sent = clock_type::now().time_since_epoch().count();
      tp.send(buffer, 5000, 1, 0).wait();
      CHECK(clock_type::now().time_since_epoch().count() - sent >= clock_type::duration(25ms).count());
    } else {
      tp.recv(buffer, 5000, 0, 0).wait();
      CHECK(clock_type::now().time_since_epoch().count() - sent >= clock_type::duration(25ms).count());
    }
  });
}

TEST_CASE("paced: time that a rank computes meanwhile is not waited for again") {
  slow_threads::launch(2, [](slow_threads& world) {
    slow_threads far = world.split(0, world.rank(), "far");
    double mine = far.rank(), sum = 0;
    weft::request r = far.all_reduce(&mine, &sum, 1, weft::dtype::f64, weft::reduction::sum);
    CHECK_FALSE(r.test());
    world.barrier().wait();
    std::this_thread::sleep_for(510ms);
    CHECK(r.test());
    CHECK(sum == 1);
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
      std::this_thread::sleep_for(5ms);
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
