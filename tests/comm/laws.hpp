// The laws of a communicator: each function is run by every rank of a launch.
#pragma once

#include <algorithm>
#include <deque>
#include <utility>

#include <doctest/doctest.h>

#include "trial.hpp"
#include "watch.hpp"

namespace laws {

using trials::choice;
using trials::kind;
using trials::trial;

inline void must_be_fine(const std::string& problem) {
  if (!problem.empty()) FAIL_CHECK(problem);
}

/// Every collective, dtype, reduction and in-place form, on sizes around zero, the number of ranks, blocks and pieces.
template <class C>
void every_collective(C& c, std::uint64_t seed) {
  // 2100 crosses a block of the fold; 40003 float64 are several pieces for each of up to 8 ranks
  for (std::int64_t count : {0, 1, 3, 7, 64, 2100, 40003}) {
    for (int k = 0; k < trials::kinds; ++k) {
      for (bool in_place : {false, true}) {
        choice how{kind(k), count, weft::dtype::u8, weft::reduction::sum, 0, in_place, seed = trials::mix(seed)};
        how.root = static_cast<int>(seed % static_cast<unsigned>(c.size()));
        const bool computes = how.what == kind::all_reduce || how.what == kind::reduce_scatter;
        for (weft::dtype type : trials::dtypes) {
          for (weft::reduction reduce : trials::reductions) {
            // the large size with every dtype, but each with one reduction
            if (count > 10000 && reduce != trials::reductions[int(type) % 3]) continue;
            how.type = type, how.how = reduce;
            must_be_fine(trial(c, how).finish());
            if (!computes) break;
          }
          if (!computes) break;
        }
      }
    }
  }
}

inline choice random_choice(std::uint64_t& state, int ranks) {
  const auto next = [&](std::uint64_t below) { return (state = trials::mix(state)) % below; };
  choice how;
  how.what = kind(next(trials::kinds));
  how.count = static_cast<std::int64_t>(next(4) == 0 ? next(30000) : next(70));
  how.type = trials::dtypes[next(7)];
  how.how = trials::reductions[next(3)];
  how.root = static_cast<int>(next(static_cast<std::uint64_t>(ranks)));
  how.in_place = next(2) == 0;
  how.seed = state;
  return how;
}

/// A random program that all ranks share: collectives on the world and on groups, many outstanding. Each rank tests and
/// waits for them in an order of its own.
template <class C>
void random_program(C& world, std::uint64_t seed, int steps) {
  const int rank = world.rank(), size = world.size();
  C half = world.split(rank % 2, -rank, "half");  // by parity, in reverse order
  C row = world.split(rank / 2, rank, "row");
  CHECK(half.size() == (size + 1 - rank % 2) / 2);
  CHECK(half.rank() == half.size() - 1 - rank / 2);
  CHECK(row.rank() == rank % 2);
  std::uint64_t shared = seed, own = trials::mix(seed + 1 + static_cast<std::uint64_t>(rank));
  std::deque<trial> open;
  const auto finish_one = [&] {
    own = trials::mix(own);
    const auto at = open.begin() + static_cast<std::ptrdiff_t>(own % open.size());
    if (own >> 32 & 1 && !at->test()) return;
    must_be_fine(at->finish());
    open.erase(at);
  };
  for (int step = 0; step < steps; ++step) {
    shared = trials::mix(shared);
    const auto where = shared % 4;
    C& c = where == 0 ? half : where == 1 ? row : world;
    // every rank of a group draws alike; other groups only differ in size, so the program stays shared
    std::uint64_t state = shared;
    choice how = random_choice(state, 1);
    how.root = static_cast<int>(state % static_cast<std::uint64_t>(c.size()));
    how.seed += where == 0   ? 1 + static_cast<std::uint64_t>(rank % 2)
                : where == 1 ? 3 + static_cast<std::uint64_t>(rank / 2)
                             : 0;
    open.emplace_back(c, how);
    if (open.size() > 20) finish_one();
    own = trials::mix(own);
    if (own % 3 == 0) finish_one();
  }
  while (!open.empty()) finish_one();
}

/// Requests waited for in different orders on different ranks; one dropped without a wait; one moved.
template <class C>
void orders(C& c) {
  std::vector<trial> open;
  for (int i = 0; i < 12; ++i) {
    open.emplace_back(c, choice{kind(i % trials::kinds), i % 2 ? 20000 : 9, weft::dtype::f32, weft::reduction::sum, 0,
                                false, static_cast<std::uint64_t>(i)});
  }
  if (c.rank() % 2) std::reverse(open.begin(), open.end());
  for (trial& t : open) must_be_fine(t.finish());

  int in = c.rank() + 1, out[3] = {0, 0, 0};
  { const weft::request dropped = c.all_reduce(&in, &out[0], 1, weft::dtype::i32, weft::reduction::sum); }
  weft::request first = c.all_reduce(&in, &out[1], 1, weft::dtype::i32, weft::reduction::sum);
  weft::request second = std::move(first);
  first = c.all_reduce(&in, &out[2], 1, weft::dtype::i32, weft::reduction::max);
  second.wait();
  second.wait();  // does nothing
  while (!first.test()) {
  }
  const int sum = c.size() * (c.size() + 1) / 2;
  CHECK(out[0] == sum);
  CHECK(out[1] == sum);
  CHECK(out[2] == c.size());
}

/// Many small sums in place, three outstanding at a time, so that ranks meet in every state of an operation.
template <class C>
void many_small(C& c, int rounds) {
  const int sum = c.size() * (c.size() + 1) / 2;
  int wrong = 0;
  for (int i = 0; i < rounds; ++i) {
    int x[3] = {c.rank() + 1, 2 * c.rank() + 2, 3 * c.rank() + 3};
    weft::request open[3];
    for (int k = 0; k < 3; ++k) open[k] = c.all_reduce(&x[k], &x[k], 1, weft::dtype::i32, weft::reduction::sum);
    for (int k = 0; k < 3; ++k) open[(k + i + c.rank()) % 3].wait();
    for (int k = 0; k < 3; ++k) wrong += x[k] != (k + 1) * sum;
  }
  CHECK(wrong == 0);
}

/// Messages of a pair arrive in the order in which they were sent, also those of a rank to itself.
template <class C>
void exchanges(C& c) {
  constexpr int messages = 9;
  std::vector<int> sent(messages * c.size()), received(messages * c.size(), -1);
  std::vector<weft::request> open;
  for (int m = 0; m < messages; ++m) {
    for (int peer = 0; peer < c.size(); ++peer) {
      int& to = sent[m * c.size() + peer];
      to = 10000 * c.rank() + 100 * peer + m;
      open.push_back(c.send(&to, sizeof to, peer));
    }
  }
  for (int m = 0; m < messages; ++m) {
    for (int peer = 0; peer < c.size(); ++peer)
      open.push_back(c.recv(&received[m * c.size() + peer], sizeof(int), peer));
  }
  for (weft::request& r : open) r.wait();
  bool right = true;
  for (int m = 0; m < messages; ++m) {
    for (int peer = 0; peer < c.size(); ++peer) {
      right = right && received[m * c.size() + peer] == 10000 * peer + 100 * c.rank() + m;
    }
  }
  CHECK(right);
}

template <class Launch>
void all(const Launch& launch, std::uint64_t seed) {
  const watchdog guard("the laws of a communicator", 300);
  launch([&](auto& c) { every_collective(c, seed); });
  launch([](auto& c) { orders(c); });
  launch([](auto& c) { exchanges(c); });
  launch([](auto& c) { many_small(c, 2000); });
  launch([&](auto& c) { random_program(c, seed, 400); });
}

}  // namespace laws
