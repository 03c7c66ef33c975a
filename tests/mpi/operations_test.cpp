// What the laws leave out: reductions in several pieces, requests that nobody waits for, orders of waiting that cross
// between groups, decorators, and one launch after another.
#include <cstring>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <weft/comm/any.hpp>
#include <weft/comm/mpi.hpp>
#include <weft/comm/paced.hpp>
#include <weft/comm/traced.hpp>

#include "comm/watch.hpp"
#include "world.hpp"

using namespace weft;

namespace {

template <class T>
std::vector<T> numbers(std::int64_t count, int rank) {
  std::vector<T> all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = T(static_cast<float>(int(i * 7 + static_cast<std::size_t>(rank) * 5) % 64) * 0.37f - 9);
  return all;
}
/// The sum over ranks of element i, in their order, in float.
template <class T>
T sum_of(std::int64_t i, int ranks) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) {
    const float x = static_cast<float>(
        T(static_cast<float>(int(static_cast<std::size_t>(i) * 7 + static_cast<std::size_t>(r) * 5) % 64) * 0.37f - 9));
    sum = r == 0 ? x : sum + x;
  }
  return T(sum);
}
template <class T>
bool same(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace

TEST_CASE("sums of more than the scratch memory are made in pieces, while others are under way") {
  const watchdog guard("sums in pieces", 300);
  mpi::launch(processes(), [](mpi& c) {
    const std::int64_t count = (std::int64_t(150) << 20) / 4 + 13;  // three pieces
    const std::int64_t narrow = 40001;                              // one, that arrives before them
    std::vector<float> x = numbers<float>(count, c.rank());
    std::vector<bf16> y = numbers<bf16>(narrow, c.rank());
    std::int64_t z = c.rank() == 0 ? INT64_MAX : 1;
    request first = c.all_reduce(x.data(), x.data(), count, dtype::f32, reduction::sum);
    request second = c.all_reduce(y.data(), y.data(), narrow, dtype::bf16, reduction::sum);
    request third = c.all_reduce(&z, &z, 1, dtype::i64, reduction::sum);
    if (c.rank() % 2) first.wait();
    third.wait();
    second.wait();
    first.wait();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) wrong += !same(x[static_cast<std::size_t>(i)], sum_of<float>(i, c.size()));
    for (std::int64_t i = 0; i < narrow; ++i) wrong += !same(y[static_cast<std::size_t>(i)], sum_of<bf16>(i, c.size()));
    require(wrong == 0, "rank ", c.rank(), ": ", wrong, " elements of a sum in pieces are wrong");
    const auto wrapped = static_cast<std::int64_t>(std::uint64_t(INT64_MAX) + static_cast<unsigned>(c.size() - 1));
    require(z == wrapped, "integers wrap: ", z);
  });
}

TEST_CASE("a reduce_scatter of more than the scratch memory, in place and not") {
  const watchdog guard("a reduce_scatter in pieces", 300);
  mpi::launch(processes(), [](mpi& c) {
    const std::int64_t count = (std::int64_t(130) << 20) / 2 / c.size() + 7;
    std::vector<bf16> in = numbers<bf16>(count * c.size(), c.rank());
    std::vector<bf16> out(static_cast<std::size_t>(count));
    c.reduce_scatter(in.data(), out.data(), count, dtype::bf16, reduction::sum).wait();
    bf16* const own = in.data() + c.rank() * count;
    c.reduce_scatter(in.data(), own, count, dtype::bf16, reduction::sum).wait();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const bf16 due = sum_of<bf16>(c.rank() * count + i, c.size());
      wrong += !same(out[static_cast<std::size_t>(i)], due) + !same(own[i], due);
    }
    require(wrong == 0, "rank ", c.rank(), ": ", wrong, " elements are wrong");
  });
}

TEST_CASE("ranks wait in orders that cross, over several groups, and split with sums under way") {
  const watchdog guard("crossed waits", 300);
  mpi::launch(processes(), [](mpi& c) {
    mpi half = c.split(c.rank() % 2, c.rank(), "half"), back = c.split(-7, -c.rank(), "back");
    constexpr std::int64_t count = 30000;  // in two steps
    for (int round = 0; round < 20; ++round) {
      std::vector<std::vector<float>> x(6, std::vector<float>(count, 1.f));
      mpi* const of[] = {&c, &half, &back, &c, &half, &back};
      std::vector<request> open;
      for (std::size_t k = 0; k < 6; ++k)
        open.push_back(of[k]->all_reduce(x[k].data(), x[k].data(), count, dtype::f32, reduction::sum));
      if (round == 3) c.split(0, 0, "while sums are under way");
      for (std::size_t k = 0; k < 6; ++k) open[(k * 5 + static_cast<std::size_t>(c.rank() + round)) % 6].wait();
      for (std::size_t k = 0; k < 6; ++k)
        for (const float v : x[k]) require(v == static_cast<float>(of[k]->size()), "a sum of ones is ", v);
    }
    require(back.rank() == c.size() - 1 - c.rank(), "a key orders ranks");
  });
}

TEST_CASE("a request that nobody waits for is waited for, and handles may be copied and outlive what they came from") {
  const watchdog guard("dropped requests", 300);
  mpi::launch(processes(), [](mpi& c) {
    std::vector<int> x(40000, 1);
    { const request dropped = c.all_reduce(x.data(), x.data(), 40000, dtype::i32, reduction::sum); }
    require(x[39999] == c.size(), "a dropped request was not completed: ", x[39999]);
    auto made = std::make_unique<mpi>(c.split(0, c.rank(), "short-lived"));
    mpi copy = *made;
    request open = made->all_reduce(x.data(), x.data(), 40000, dtype::i32, reduction::max);
    made.reset();
    open = copy.barrier();  // waits for the sum
    open.wait();
    request tested = copy.barrier();
    while (!tested.test()) {
    }
  });
}

TEST_CASE("decorators and any_communicator work over processes") {
  const watchdog guard("decorators", 300);
  struct links {
    static constexpr link_speed of(std::string_view) { return {}; }
  };
  traced<paced<mpi, links>>::launch(processes(), [](auto& c) {
    any_communicator any = c;
    any_communicator half = any.split(c.rank() % 2, c.rank(), "half");
    int x = 1;
    any.all_reduce(&x, &x, 1, dtype::i32, reduction::sum).wait();
    require(x == c.size(), "a sum of ones is ", x);
    half.barrier().wait();
    if (c.size() > 1)
      require(c.log().total(c.rank(), "all_reduce", "world").calls == 1, "a trace has this rank's calls");
  });
}

TEST_CASE("a launch follows another, also one that failed on every rank") {
  const watchdog guard("launches", 300);
  for (int i = 0; i < 5; ++i) {
    CHECK_THROWS_WITH_AS(mpi::launch(processes(), [](mpi&) { fail("on every rank"); }), "on every rank", failure);
    int sum = 1;
    mpi::launch(processes(), [&](mpi& c) { c.all_reduce(&sum, &sum, 1, dtype::i32, reduction::sum).wait(); });
    CHECK(sum == processes());
  }
  CHECK(mpi::process_rank() < processes());
}
