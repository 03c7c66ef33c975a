// The communicator that compares calls: it raises no false alarm, and finds every wrong program of a catalogue, over
// one that compares nothing by itself. checked_laws_test.cpp has it beside the laws.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/comm/checked.hpp>
#include <weft/comm/detail/announcement.hpp>
#include <weft/comm/threads.hpp>

#include "bare.hpp"
#include "misuses.hpp"
#include "sample.hpp"
#include "watch.hpp"

using namespace weft;
using weft_test::bare;

namespace {

struct impatient {
  static constexpr std::chrono::milliseconds stuck{2000};
};
using C = checked<bare>;

// What launch says of it.
template <class World>
std::string run(const weft_test::misuse<World>& m, std::uint64_t seed) {
  const watchdog guard(m.name, 300);
  weft_test::told = false;
  try {
    World::launch(m.ranks, [&](World& world) { weft_test::run_rank(m, world, seed); });
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing";
}

// How many timings of each wrong program are tried: 50 where all is asked for.
int timings() { return weft_test::everything() ? 50 : 1; }

// The programs of the catalogue in which a rank is stuck, or the others; how many they were. Says how long the slowest
// took, from launch to its error; no test judges by that.
template <class World, class Then>
std::size_t each_misuse(bool stuck, int seeds, Then&& then) {
  using clock = std::chrono::steady_clock;
  std::size_t tried = 0;
  clock::duration longest{};
  std::string slowest;
  for (const auto& m : weft_test::misuses<World>()) {
    if (m.stuck != stuck) continue;
    ++tried;
    for (int seed = 1; seed <= seeds; ++seed) {
      CAPTURE(std::string(m.name));
      CAPTURE(seed);
      const auto begin = clock::now();
      const std::string said = run(m, std::uint64_t(seed));
      if (const auto took = clock::now() - begin; took > longest)
        longest = took, slowest = std::string(m.name) + ", timing " + std::to_string(seed);
      CAPTURE(said);
      for (const std::string& part : m.says) {
        CAPTURE(part);
        CHECK(said.find(part) != std::string::npos);
      }
      then();
    }
  }
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(longest).count();
  MESSAGE(tried << " wrong programs, " << seeds << " timings of each: the slowest was told after " << ms << " ms ("
                << slowest << ")");
  return tried;
}

}  // namespace

TEST_CASE("every wrong program of the catalogue ends by itself and is named, on all ranks in one sentence") {
  const auto on_all_ranks = [] { CHECK(bare::sentences.size() == 1); };
  CHECK(each_misuse<C>(false, timings(), on_all_ranks) >= 20);
  CHECK(each_misuse<checked<bare, impatient>>(true, timings(), on_all_ranks) == 2);
}

namespace {
struct patient {
  static constexpr std::chrono::milliseconds stuck{3000};
};
}  // namespace

TEST_CASE("no false alarm over a rank that computes for less than the limit at a time, however long others wait") {
  const watchdog guard("a rank that computes", 300);
  checked<bare, patient>::launch(4, [](auto& c) {
    int x = c.rank(), y = 0;
    if (c.rank() < 2)
      for (int i = 0; i < 5; ++i) {  // nothing of it is seen by ranks 2 and 3
        std::this_thread::sleep_for(std::chrono::milliseconds(800));
        request there = c.send(&x, sizeof x, 1 - c.rank(), i), here = c.recv(&y, sizeof y, 1 - c.rank(), i);
        there.wait();
        here.wait();
      }
    c.barrier().wait();
    if (c.rank() == 3) std::this_thread::sleep_for(std::chrono::milliseconds(3900));  // the others have returned
  });
}

TEST_CASE("no false alarm where what one rank tells another is long on its way") {
  const watchdog guard("ranks that wait in a ring", 300);
  bare::on_the_way = [](int from, int to) { return from == 1 && to == 0 ? 300 : 0; };
  // Rank 1 has called what rank 0 waits for, before it waits for rank 2, which waits for rank 0.
  checked<bare>::launch(3, [](auto& c) {
    int x = 0, y = 0;
    request given;
    if (c.rank() == 1) given = c.send(&x, sizeof x, 0, 0);
    c.recv(&y, sizeof y, (c.rank() + 1) % 3, 0).wait();
    if (c.rank() != 1) given = c.send(&x, sizeof x, (c.rank() + 2) % 3, 0);
    given.wait();
  });
  bare::on_the_way = nullptr;
}

TEST_CASE("many operations under way: C is given no more than it takes, and a split comes after what was told before") {
  const watchdog guard("many operations", 300);
  bare::on_the_way = [](int from, int to) { return from == 1 && to == 0 ? 20 : 0; };
  const auto program = [](auto& c) {
    constexpr int count = 60;
    int x[count] = {}, y[count] = {};
    std::vector<request> open;
    const auto exchange = [&](int from, int to) {
      for (int i = 0; i < count; ++i)
        if (c.rank() == from) open.push_back(c.send(&(x[i] = i), sizeof x[i], to, 0));
      if (c.rank() != from) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    };
    const auto receive = [&](int from, int to) {
      for (int i = 0; i < count; ++i)
        if (c.rank() == to) open.push_back(c.recv(&y[i], sizeof y[i], from, 0));
      for (request& r : open) r.wait();
      open.clear();
      if (c.rank() == to)
        for (int i = 0; i < count; ++i) require(y[i] == i, "number ", i, " is ", y[i]);
    };
    exchange(1, 0);
    receive(1, 0);
    exchange(0, 2);
    c.split(0, 0, "half");
    receive(0, 2);
  };
  checked<bare>::launch(3, program);
  checked<threads>::launch(3, program);  // whose sends are complete when they are received
  bare::on_the_way = nullptr;
}

TEST_CASE("a rank's own error comes out of launch, of its own type, whatever the others do") {
  struct own_error : failure {
    using failure::failure;
  };
  for (int culprit = 0; culprit < 3; ++culprit)
    for (int when = 0; when < 4; ++when)
      for (int tries = 0; tries < weft_test::sampled(4); ++tries) {
        CAPTURE(culprit);
        CAPTURE(when);
        const watchdog guard("a rank that throws", 300);
        const auto body = [&](auto& c) {
          float x[8] = {};
          request sum = c.all_reduce(x, x, 8, dtype::f32, reduction::sum);
          if (when == 0 && c.rank() == culprit) throw own_error("mine");
          sum.wait();
          if (when == 1 && c.rank() == culprit) throw own_error("mine");
          if (when != 3) c.barrier().wait();
          if (when == 2 && c.rank() == culprit) throw own_error("mine");
          if (when == 3 && c.rank() == culprit) {
            std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the others have returned
            throw own_error("mine");
          }
        };
        CHECK_THROWS_WITH_AS(checked<threads>::launch(3, body), "mine", own_error);
        CHECK_THROWS_WITH_AS(checked<bare>::launch(3, body), "mine", own_error);
      }
}

TEST_CASE("calls have one fingerprint where they agree, and only there") {
  using weft::detail::agree, weft::detail::fingerprint;
  const comm_call plain{.operation = comm_operation::all_reduce, .type = dtype::f32, .count = 4};
  std::vector<comm_call> calls{plain, plain};
  const auto with = [&](const auto& change) {
    calls.push_back(plain);
    change(calls.back());
  };
  float there = 0;
  with([&](comm_call& c) { c.in = c.out = &there; });  // each rank's own
  with([](comm_call& c) { c.operation = comm_operation::reduce_scatter; });
  with([](comm_call& c) { c.type = dtype::i32; });
  with([](comm_call& c) { c.how = reduction::max; });
  with([](comm_call& c) { c.count = 5; });
  with([](comm_call& c) { c.label.what = "gradients"; });
  with([](comm_call& c) { c.label.tensor = "[batch]"; });
  with([](comm_call& c) { c.label.unit = "[batch]"; });
  with([](comm_call& c) { c.label.number = 3; });
  with([](comm_call& c) { c.label.kind = label_kind::gradient; });
  with([](comm_call& c) { c.label.at = {"a.cpp", 1}; });
  with([](comm_call& c) { c.label.at = {"b.cpp", 1}; });
  with([](comm_call& c) { c.label.at = {"a.cpp", 2}; });
  with([](comm_call& c) { c.operation = comm_operation::broadcast, c.peer = 1; });
  with([](comm_call& c) { c.operation = comm_operation::broadcast, c.peer = 2; });
  with([](comm_call& c) { c.operation = comm_operation::send, c.peer = 1; });
  with([](comm_call& c) { c.operation = comm_operation::send, c.peer = 1, c.tag = 2; });
  with([](comm_call& c) { c.operation = comm_operation::recv, c.peer = 0; });
  for (const comm_call& a : calls)
    for (const comm_call& b : calls) {
      CAPTURE(weft::detail::describe(a));
      CAPTURE(weft::detail::describe(b));
      CHECK((agree(a, b) || agree(b, a)) == (fingerprint(a) == fingerprint(b)));
    }
}

TEST_CASE("the same words come over threads, which compare calls themselves") {
  CHECK(each_misuse<checked<threads>>(false, timings(), [] {}) >= 20);
  CHECK(each_misuse<checked<threads, impatient>>(true, timings(), [] {}) == 2);
}

TEST_CASE("a launch has the sentence of the rank that gave up a request, whichever rank ends first") {
  struct gone {  // says that the other rank has left its function
    std::atomic<bool>& told;
    explicit gone(std::atomic<bool>& t) : told(t) {}
    ~gone() { told = true, told.notify_all(); }
  };
  std::atomic<bool> told{false};
  const auto gives_up = [&](bare& c) {
    std::optional<gone> says;
    if (c.rank() == 0) says.emplace(told);  // before anything that may throw, as recv does where rank 1 has given up
    int other = 0;
    request r = c.recv(&other, sizeof other, 1 - c.rank(), 0);
    if (c.rank() == 0) r.wait(), says.reset();
    r.abandon();
    told.wait(false);
    throw failure("rank 1 had enough");
  };
  CHECK_THROWS_WITH_AS(bare::launch(2, gives_up), "rank 1 had enough", failure);
}

TEST_CASE("a handle that outlives its launch, and a request that is given up") {
  const watchdog guard("the end of a launch", 300);
  std::unique_ptr<C> kept;
  C::launch(2, [&](C& c) {
    if (c.rank() == 0) kept = std::make_unique<C>(c);
    c.barrier().wait();
  });
  CHECK_THROWS_WITH_AS(kept->barrier().wait(), "a communicator of checked<C>::launch was used after the launch.",
                       failure);
  std::atomic<bool> given_up{false};  // before rank 0 calls it: a barrier that all have reached is complete
  CHECK_THROWS_WITH_AS(C::launch(2,
                                 [&](C& c) {
                                   if (c.rank() == 0) given_up.wait(false);
                                   request r = c.barrier();
                                   if (c.rank() == 1) r.abandon(), given_up = true, given_up.notify_all();
                                   r.wait();
                                   c.barrier().wait();
                                 }),
                       doctest::Contains("rank 1 left barrier() of group 'world' by an exception"), failure);
}
