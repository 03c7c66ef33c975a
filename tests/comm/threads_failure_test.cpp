// What happens to the other ranks when one fails, leaves, or calls something else: they end, and the error says why.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "watch.hpp"
#include "weft/comm/threads.hpp"

using weft::dtype;
using weft::reduction;
using weft::threads;

namespace {

struct own_error : weft::failure {
  using failure::failure;
};

/// Runs f on so many ranks and returns the message of the weft::failure that launch throws, "" if none.
template <class F>
std::string message_of(int ranks, const F& f) {
  const watchdog guard("a launch that must fail", 300);
  try {
    threads::launch(ranks, f);
  } catch (const weft::failure& e) {
    return e.what();
  }
  return {};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A sum over a buffer that dies when its owner unwinds, so that a late reader would be caught by a sanitizer.
struct doomed_sum {
  explicit doomed_sum(threads& c, int count = 200000)
      : data(std::make_unique<float[]>(count)),
        sum(c.all_reduce(data.get(), data.get(), count, dtype::f32, reduction::sum)) {}
  std::unique_ptr<float[]> data;
  weft::request sum;
};

}  // namespace

TEST_CASE("the error of a rank that throws is rethrown, once, whatever the others do") {
  for (int ranks : {1, 2, 3, 8}) {
    for (int culprit : {0, ranks - 1}) {
      for (int when = 0; when < 6; ++when) {
        CAPTURE(ranks);
        CAPTURE(culprit);
        CAPTURE(when);
        const watchdog guard("a rank that throws", 300);
        std::atomic<int> finished{0};
        const auto body = [&](threads& c) {
          const bool mine = c.rank() == culprit;
          if (when == 0 && mine) throw own_error("mine");
          threads tp = c.split(c.rank() % 2, 0, "tp");
          for (int i = 0; i < 3; ++i) doomed_sum(c).sum.wait();
          if (when == 1 && mine) throw own_error("mine");  // others wait in a group, then in the world
          tp.barrier().wait();
          doomed_sum first(c);
          if (when == 2 && mine) throw own_error("mine");  // with one request open
          doomed_sum second(tp), third(c);
          if (when == 3 && mine) throw own_error("mine");  // with three
          second.sum.wait();
          if (when == 4 && mine) throw own_error("mine");
          third.sum.wait();
          first.sum.wait();
          c.barrier().wait();
          if (when == 5 && mine) throw own_error("mine");  // after all collectives, of the others too
          ++finished;
        };
        CHECK_THROWS_WITH_AS(threads::launch(ranks, body), "mine", own_error);
        if (when == 5) CHECK(finished == ranks - 1);
      }
    }
  }
}

TEST_CASE("anything can be thrown") {
  const watchdog guard("a rank that throws an int", 300);
  CHECK_THROWS_AS(threads::launch(3,
                                  [](threads& c) {
                                    if (c.rank() == 2) throw 42;
                                    c.barrier().wait();
                                  }),
                  int);
}

TEST_CASE("a rank learns why it was ended") {
  std::string told;
  CHECK(message_of(2, [&](threads& c) {
          if (c.rank() == 1) throw own_error("the disk is full");
          try {
            c.barrier().wait();
            c.barrier().wait();
          } catch (const weft::aborted& e) {
            told = e.what();
            throw;
          }
        }) == "the disk is full");
  CHECK(told == "This collective can't finish: rank 1 failed: the disk is full");
}

TEST_CASE("bug: ranks that disagree on a collective corrupt it (they are told who calls what)") {
  std::string text = message_of(3, [](threads& c) {
    float x[8] = {};
    if (c.rank() == 1) {
      c.broadcast(x, 12, 2).wait();
    } else {
      c.all_reduce(x, x, 5, dtype::f32, reduction::sum).wait();
    }
  });
  CHECK(
      text ==
      "The ranks of group 'world' disagree on their collective number 0: rank 0 calls all_reduce(5 fp32, sum); rank 1 "
      "calls broadcast(12 bytes, root 2); rank 2 calls all_reduce(5 fp32, sum). Every rank of a group has to call the "
      "same collectives in the same order.");

  struct call {
    std::int64_t count;
    dtype type;
    reduction how;
  };
  for (call other :
       {call{6, dtype::f32, reduction::sum}, {5, dtype::i32, reduction::sum}, {5, dtype::f32, reduction::max}}) {
    text = message_of(2, [&](threads& c) {
      float x[8] = {};
      const call mine = c.rank() == 0 ? call{5, dtype::f32, reduction::sum} : other;
      c.all_reduce(x, x, mine.count, mine.type, mine.how).wait();
    });
    CHECK(contains(text, "rank 0 calls all_reduce(5 fp32, sum); rank 1 calls all_reduce("));
  }
  CHECK(contains(message_of(2,
                            [](threads& c) {
                              float x = 0;
                              c.broadcast(&x, 4, c.rank()).wait();
                            }),
                 "rank 0 calls broadcast(4 bytes, root 0); rank 1 calls broadcast(4 bytes, root 1)"));
  CHECK(contains(message_of(4,
                            [](threads& c) {
                              threads tp = c.split(c.rank() / 2, c.rank(), "tp");
                              float x[4] = {}, y[4];
                              if (c.rank() == 3)
                                tp.all_gather(x, y, 4).wait();
                              else
                                tp.all_gather(x, y, 8).wait();
                            }),
                 "group 'tp' disagree on their collective number 0: rank 2 calls all_gather(8 bytes); rank 3 calls "
                 "all_gather(4 bytes)"));
  CHECK(contains(message_of(3,
                            [](threads& c) {
                              float x[4] = {};
                              if (c.rank() == 0) c.send(x, 8, 2, 0).wait();
                              if (c.rank() == 2) c.recv(x, 16, 0, 0).wait();
                            }),
                 "disagree on their exchange number 0: rank 0 calls send(8 bytes); rank 2 calls recv(16 bytes)"));
}

TEST_CASE("a disagreement found while nobody waits still ends the launch") {
  CHECK(contains(message_of(2,
                            [](threads& c) {
                              float x[4] = {};
                              const weft::request dropped = c.broadcast(x, 4, c.rank());
                            }),
                 "disagree"));
}

TEST_CASE("bug: a rank that waits for what never comes hangs (the ranks are told what each waits for)") {
  std::string text = message_of(3, [](threads& c) {
    if (c.rank() == 1) return;
    c.barrier().wait();
  });
  CHECK(contains(text, "rank 0 waits for barrier() of group 'world', which still has to be called by rank 1"));
  CHECK(contains(text, "rank 1 has returned"));

  text = message_of(2, [](threads& c) {  // a recv without a send
    float x;
    c.recv(&x, 4, 1 - c.rank(), 0).wait();
  });
  CHECK(contains(text, "rank 0 waits for recv(4 bytes) of group 'world', which still has to be called by rank 1"));

  text = message_of(2, [](threads& c) {  // a send with one tag, and a recv with another
    float x = 0;
    if (c.rank() == 0) c.send(&x, 4, 1, 7).wait();
    if (c.rank() == 1) c.recv(&x, 4, 0, 0).wait();
  });
  CHECK(contains(text, "rank 0 waits for send(4 bytes, tag 7) of group 'world'"));
  CHECK(contains(text, "rank 1 waits for recv(4 bytes) of group 'world'"));

  text = message_of(4, [](threads& c) {  // two groups in opposite orders
    threads tp = c.split(c.rank() / 2, c.rank(), "tp");
    if (c.rank() == 1) c.barrier().wait();
    tp.barrier().wait();
    if (c.rank() != 1) c.barrier().wait();
  });
  CHECK(contains(text,
                 "rank 0 waits for barrier() of group 'tp', which still has to be called by rank 1; rank 1 waits "
                 "for barrier() of group 'world', which still has to be called by rank 0"));

  for (int ranks : {1, 2}) {
    text = message_of(ranks, [](threads& c) {
      float x = 0;
      if (c.rank() == 0) c.send(&x, 4, 0, 0).wait();
      c.barrier().wait();
    });
    CHECK(contains(text, "rank 0 waits for send(4 bytes) of group 'world', which still has to be called by rank 0"));
  }
}

TEST_CASE("more operations than the ring holds may be outstanding on one rank, when the others keep up") {
  const watchdog guard("many outstanding operations", 300);
  threads::launch(3, [](threads& c) {
    constexpr int count = 200;
    std::vector<int> x(count, 1);
    std::vector<weft::request> open;
    for (int& e : x) open.push_back(c.all_reduce(&e, &e, 1, dtype::i32, reduction::sum));
    for (weft::request& r : open) r.wait();
    CHECK(x == std::vector<int>(count, 3));
  });
}

TEST_CASE("bad arguments are refused on the rank that gives them") {
  float x[4] = {};
  const auto refused = [&](auto f) {
    return message_of(2, [&](threads& c) {
      if (c.rank() == 0) f(c);
      c.barrier().wait();
    });
  };
  CHECK(refused([&](threads& c) { c.broadcast(x, 4, 2).wait(); }) ==
        "broadcast names rank 2, but the group's ranks are 0 to 1.");
  CHECK(refused([&](threads& c) { c.send(x, 4, -1, 0).wait(); }) ==
        "send names rank -1, but the group's ranks are 0 to 1.");
  CHECK(refused([&](threads& c) { c.send(x, 4, 1, -1).wait(); }) == "send has the tag -1; tags are 0 to 32767.");
  CHECK(refused([&](threads& c) { c.recv(x, 4, 1, 32768).wait(); }) == "recv has the tag 32768; tags are 0 to 32767.");
  CHECK(contains(refused([&](threads& c) { c.all_gather(nullptr, x, 4).wait(); }), "null buffer"));
  CHECK(contains(refused([&](threads& c) { c.all_gather(x, x, -4).wait(); }), "-4"));
  CHECK(contains(refused([&](threads& c) { c.all_to_all(x, x, 4).wait(); }), "in place"));
  CHECK(contains(message_of(0, [](threads&) {}), "not 0"));
}

TEST_CASE("a failed launch leaves nothing behind") {
  CHECK(message_of(4, [](threads& c) {
          if (c.rank() == 3) throw own_error("once");
          c.barrier().wait();
        }) == "once");
  std::atomic<int> sum{0};
  threads::launch(4, [&](threads& c) {
    int x = 1;
    c.all_reduce(&x, &x, 1, dtype::i32, reduction::sum).wait();
    sum += x;
  });
  CHECK(sum == 16);
}

TEST_CASE("ranks that expect other sizes in an all_to_allv than they are sent") {
  const std::string said = message_of(3, [](threads& c) {
    const std::vector<float> in(12, 1);
    std::vector<float> out(12);
    const std::int64_t sends[] = {4, 8, c.rank() == 1 ? 12 : 16}, receives[] = {4 * (c.rank() + 1), 8, 16};
    c.all_to_allv(in.data(), sends, out.data(), receives, {"tokens"}).wait();
  });
  CHECK(said ==
        "In the all_to_allv for tokens of group 'world' rank 0 receives 8 bytes from rank 1, which sends it 4; "
        "make the two sizes equal.");
}
