// The laws of a communicator: what every collective means, in every type and order, asynchronous, in groups, with ranks
// that come late. Needs no test framework.
// Invariant: what comes out is compared with what all ranks put in, computed apart from the communicator.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include <weft/testing/collective.hpp>
#include <weft/testing/launch.hpp>
#include <weft/testing/reduction.hpp>
#include <weft/testing/watchdog.hpp>

namespace weft::testing {
namespace detail::collectives {

inline void must_be_fine(const std::string& disagreement) { require(disagreement.empty(), disagreement); }

/// Every collective, dtype, reduction and in-place form, on sizes around zero, the number of ranks, blocks and pieces.
template <class C>
void every_collective(C& c, std::uint64_t seed, std::initializer_list<std::int64_t> counts) {
  for (const std::int64_t count : counts)
    for (int k = 0; k < kinds; ++k)
      for (const bool in_place : {false, true}) {
        choice how{kind(k), count, dtype::u8, reduction::sum, 0, in_place, seed = mix(seed)};
        how.root = static_cast<int>(seed % static_cast<unsigned>(c.size()));
        const bool computes = how.what == kind::all_reduce || how.what == kind::reduce_scatter;
        for (const dtype type : dtypes) {
          for (const reduction reduce : reductions) {
            // a large size with every dtype, but each with one reduction
            if (count > 10000 && reduce != reductions[int(type) % 3]) continue;
            how.type = type, how.how = reduce;
            must_be_fine(trial(c, how).finish());
            if (!computes) break;
          }
          if (!computes) break;
        }
      }
}

inline choice random_choice(std::uint64_t& state, int ranks) {
  const auto next = [&](std::uint64_t below) { return (state = mix(state)) % below; };
  choice how;
  how.what = kind(next(kinds));
  how.count = static_cast<std::int64_t>(next(4) == 0 ? next(30000) : next(70));
  how.type = dtypes[next(7)];
  how.how = reductions[next(3)];
  how.root = static_cast<int>(next(static_cast<std::uint64_t>(ranks)));
  how.in_place = next(2) == 0;
  how.seed = state;
  return how;
}

/// What split says of a group, and whether its collectives are among the ranks that it says. `color`, `key`: of each
/// rank of the world.
template <class C, class Color, class Key>
void group(C& world, const char* what, const Color& color, const Key& key, std::uint64_t seed) {
  const int own = world.rank();
  int size = 0, place = 0;
  for (int r = 0; r < world.size(); ++r) {
    if (color(r) != color(own)) continue;
    ++size;
    place += std::pair(key(r), r) < std::pair(key(own), own);
  }
  C c = world.split(color(own), key(own), "group");
  require(c.size() == size && c.rank() == place, "split by ", what, " on rank ", own, " of ", world.size(), ": rank ",
          c.rank(), " of ", c.size(), ", and it is ", place, " of ", size,
          ": the ranks of one color, in the order of (key, rank)");
  every_collective(c, seed + static_cast<std::uint64_t>(color(own)), {0, 1, 5, 300});
}

template <class C>
void groups(C& world, std::uint64_t seed) {
  const auto same = [](int) { return 0; };
  const auto own = [](int r) { return r; };
  const auto odd = [](int r) { return r % 2; };
  const auto first = [](int r) { return r == 0 ? 1 : 0; };
  const auto backwards = [](int r) { return -r; };
  group(world, "nothing, in reverse order", same, backwards, seed);
  group(world, "nothing, with equal keys", same, same, seed + 10);
  group(world, "rank, into groups of one", own, own, seed + 20);
  group(world, "parity, in reverse order", odd, backwards, seed + 50);
  group(
      world, "rank 0 and the others", first, [](int r) { return r % 3; }, seed + 60);
  C half = world.split(world.rank() % 2, -world.rank(), "half");
  group(half, "nothing, within a group", same, backwards, seed + 70 + static_cast<std::uint64_t>(world.rank() % 2));
}

/// A rank that comes late: what depends on it isn't there before. A wait that returns too early is told.
template <class C>
void late(C& c, std::uint64_t seed) {
  using namespace std::chrono;
  for (const int who : {0, c.size() - 1})
    for (int k = 0; k < int(kind::barrier); ++k) {
      c.barrier().wait();
      if (c.rank() == who) std::this_thread::sleep_for(milliseconds(3));
      must_be_fine(
          trial(c, {kind(k), k % 2 ? 20000 : 9, dtype::f32, reduction::sum, who, false, seed = mix(seed)}).finish());
    }
  // A barrier leaves no data: the others wait as long as the rank that is late. One try in which a busy machine does
  // so by itself says nothing, so the times grow.
  bool waits = c.size() == 1;
  for (int tries = 0; tries < 6; ++tries) {
    const auto nap = milliseconds(10) * (1 << tries);
    c.barrier().wait();
    const auto begin = steady_clock::now();
    if (c.rank() == 0) std::this_thread::sleep_for(nap);
    c.barrier().wait();
    const std::int32_t mine = steady_clock::now() - begin >= nap / 2;
    std::int32_t all = 0;
    c.all_reduce(&mine, &all, 1, dtype::i32, reduction::min).wait();
    waits = waits || all == 1;
    if (waits) return;
  }
  fail("barrier on rank ", c.rank(), " of ", c.size(), ": its wait returns before the last rank has called it");
}

/// A random program that all ranks share: collectives on the world and on groups, many outstanding. Each rank tests and
/// waits for them in an order of its own.
template <class C>
void random_program(C& world, std::uint64_t seed, int steps) {
  const int rank = world.rank();
  C half = world.split(rank % 2, -rank, "half");  // by parity, in reverse order
  C row = world.split(rank / 2, rank, "row");
  std::uint64_t shared = seed, own = mix(seed + 1 + static_cast<std::uint64_t>(rank));
  std::deque<trial> open;
  const auto finish_one = [&] {
    own = mix(own);
    const auto at = open.begin() + static_cast<std::ptrdiff_t>(own % open.size());
    if (own >> 32 & 1 && !at->test()) return;
    must_be_fine(at->finish());
    open.erase(at);
  };
  for (int step = 0; step < steps; ++step) {
    shared = mix(shared);
    const auto where = shared % 4;
    C& c = where == 0 ? half : where == 1 ? row : world;
    // every rank of a group draws alike; other groups only differ in size, so the program stays shared
    std::uint64_t state = shared;
    choice how = random_choice(state, 1);
    how.root = static_cast<int>(state % static_cast<std::uint64_t>(c.size()));
    how.seed += static_cast<std::uint64_t>(where == 0 ? 1 + rank % 2 : where == 1 ? 3 + rank / 2 : 0);
    open.emplace_back(c, how);
    if (open.size() > 20) finish_one();
    own = mix(own);
    if (own % 3 == 0) finish_one();
  }
  while (!open.empty()) finish_one();
}

/// Requests waited for in different orders on different ranks; one dropped without a wait; one moved.
template <class C>
void orders(C& c) {
  std::vector<trial> open;
  for (int i = 0; i < 12; ++i)
    open.emplace_back(c, choice{kind(i % kinds), i % 2 ? 20000 : 9, dtype::f32, reduction::sum, 0, false,
                                static_cast<std::uint64_t>(i)});
  if (c.rank() % 2) std::reverse(open.begin(), open.end());
  for (trial& t : open) must_be_fine(t.finish());

  int in = c.rank() + 1, out[3] = {0, 0, 0};
  { const request dropped = c.all_reduce(&in, &out[0], 1, dtype::i32, reduction::sum); }
  request first = c.all_reduce(&in, &out[1], 1, dtype::i32, reduction::sum);
  request second = std::move(first);
  first = c.all_reduce(&in, &out[2], 1, dtype::i32, reduction::max);
  second.wait();
  second.wait();  // does nothing
  while (!first.test()) {
  }
  const int sum = c.size() * (c.size() + 1) / 2;
  require(out[0] == sum, "a request that is dropped is waited for: an all_reduce gave ", out[0], " for ", sum);
  require(out[1] == sum && out[2] == c.size(), "requests waited for in another order than posted: ", out[1], " and ",
          out[2], " for ", sum, " and ", c.size());
}

/// Many small sums in place, three outstanding at a time, so that ranks meet in every state of an operation.
template <class C>
void many_small(C& c, int rounds) {
  const int sum = c.size() * (c.size() + 1) / 2;
  for (int i = 0; i < rounds; ++i) {
    int x[3] = {c.rank() + 1, 2 * c.rank() + 2, 3 * c.rank() + 3};
    request open[3];
    for (int k = 0; k < 3; ++k) open[k] = c.all_reduce(&x[k], &x[k], 1, dtype::i32, reduction::sum);
    for (int k = 0; k < 3; ++k) open[(k + i + c.rank()) % 3].wait();
    for (int k = 0; k < 3; ++k)
      require(x[k] == (k + 1) * sum, "small sums under way at once: ", x[k], " for ", (k + 1) * sum, " in round ", i);
  }
}

/// Messages of a pair arrive in the order in which they were sent, also those of a rank to itself; those of another tag
/// may be received before.
template <class C>
void exchanges(C& c) {
  constexpr int messages = 9;
  constexpr int tags[] = {32767, 0, 5};
  const auto at = [&](int m, int peer) { return static_cast<std::size_t>(m * c.size() + peer); };
  std::vector<int> sent(at(messages, 0)), received(at(messages, 0), -1);
  std::vector<request> open;
  for (int m = 0; m < messages; ++m)
    for (int peer = 0; peer < c.size(); ++peer) {
      int& to = sent[at(m, peer)];
      to = 10000 * c.rank() + 100 * peer + m;
      open.push_back(c.send(&to, sizeof to, peer, tags[m % 3]));
    }
  for (int t = 2; t >= 0; --t)
    for (int m = t; m < messages; m += 3)
      for (int peer = 0; peer < c.size(); ++peer)
        open.push_back(c.recv(&received[at(m, peer)], sizeof(int), peer, tags[t]));
  for (request& r : open) r.wait();
  for (int m = 0; m < messages; ++m)
    for (int peer = 0; peer < c.size(); ++peer)
      require(received[at(m, peer)] == 10000 * peer + 100 * c.rank() + m, "message ", m, " from rank ", peer,
              " to rank ", c.rank(), " arrived out of turn");
}

template <class Launch>
void check_laws(const Launch& launch, int ranks, std::uint64_t seed, int seconds) {
  const auto law = [&](const char* what, auto&& body) {
    const watchdog guard(what, seconds);
    roster ran(what, ranks);
    launch([&](auto& c) {
      try {
        ran.enter(c.rank(), c.size());
        body(c);
      } catch (...) {
        ran.keep(std::current_exception());
        throw;
      }
    });
    ran.leave();
  };
  // 2100 crosses a block of the fold; 40003 float64 are several pieces for each of up to 8 ranks
  law("a communicator's collectives", [&](auto& c) { every_collective(c, seed, {0, 1, 3, 7, 64, 2100, 40003}); });
  law("a communicator's reductions", [&](auto& c) { every_reduction(c, seed); });
  law("a communicator's requests", [](auto& c) { orders(c); });
  law("a communicator's messages", [](auto& c) { exchanges(c); });
  law("a communicator's small sums", [](auto& c) { many_small(c, 2000); });
  law("a communicator's groups", [&](auto& c) { groups(c, seed); });
  law("a communicator whose rank comes late", [&](auto& c) { late(c, seed); });
  law("a communicator's random program", [&](auto& c) { random_program(c, seed, 400); });
  const watchdog guard("a communicator of which one rank throws", seconds);
  errors_come_out(launch);
}

}  // namespace detail::collectives

/// The laws, for ranks that `launch(f)` starts: it calls f(C& world) on every rank, and returns when all are done.
/// Throws weft::failure with the first disagreement. A law that takes longer than `seconds` ends the process, and says
/// which one hangs.
template <class Launch>
void check_communicator_of(const Launch& launch, std::uint64_t seed = 1, int seconds = 300) {
  detail::collectives::check_laws(launch, 0, seed, seconds);
}

/// Throws weft::failure unless the communicator obeys the laws on so many ranks: every collective gives what it means,
/// for all types, sizes and reductions, in place, asynchronous, in groups of any ranks and order; nothing is done
/// before the last rank has come; an all_reduce gives every rank the same bits; launch runs every rank once, and throws
/// the error of one.
///
///   for (const int ranks : {1, 2, 3, 8}) testing::check_communicator<mine>(ranks);
template <communicator_policy C>
void check_communicator(int ranks, std::uint64_t seed = 1, int seconds = 300) {
  detail::collectives::check_laws([ranks](auto f) { C::launch(ranks, f); }, ranks, seed, seconds);
}

}  // namespace weft::testing
