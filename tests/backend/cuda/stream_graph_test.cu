// What a stream and those beside it keep back as a graph: when it runs, who has it launched, what precedes and follows
// it. Needs a GPU.
#include <cstdint>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <weft/backend/cuda/memory.cuh>
#include <weft/backend/cuda/stream.cuh>

#include "device_calls.hpp"

namespace {
using weft::failure;
using weft::gpu::stream;

// Adds to a byte.
struct add {
  std::uint8_t* at;
  int number;
  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    if (block.thread() == 0) *at = static_cast<std::uint8_t>(*at + number);
  }
};

// Bytes of the device's, which the host reads past all streams.
struct bytes {
  explicit bytes(std::size_t n = 16) : count(n), at(weft::gpu::allocate(n)) {
    reader.zero(at.get(), n);
    reader.synchronize();
  }
  void set(stream& on, int value) const {
    const std::vector<std::uint8_t> all(count, static_cast<std::uint8_t>(value));
    on.upload(all.data(), at.get(), count);
  }
  int first() {
    std::uint8_t out = 0;
    reader.download(at.get(), &out, 1);
    return out;
  }
  void copy_to(stream& on, const bytes& to) const { on.copy(at.get(), to.at.get(), count); }

  stream reader;
  std::size_t count;
  weft::gpu::device_pointer at;
};

}  // namespace

TEST_CASE("a stream's graph: what is kept back is launched, and by whoever waits for it") {
  stream q;
  bytes x;
  const auto side = q.beside();
  stream::event before, within, never;
  q.record(before);
  std::int64_t flushes = 0;
  const auto keeps = [&](int value) {
    q.begin_graph();
    q.begin_graph();  // it is begun
    x.set(q, value);
    q.record(within);
    CHECK(!within.happened());
    CHECK(q.keeps_back());
    CHECK(x.first() != value);
  };
  const auto is = [&](int value, int flushed) {
    CHECK(x.first() == value);
    CHECK(q.graphs().flushes == (flushes += flushed));
  };
  keeps(1);
  q.wait(before), q.wait(within);
  q.launch_graph();
  CHECK(!q.keeps_back());
  within.synchronize();
  CHECK(within.happened());
  is(1, 0);
  keeps(2);
  within.synchronize();
  is(2, 1);
  keeps(3);
  q.synchronize();
  is(3, 1);
  keeps(4);
  std::uint8_t out = 0;
  q.download(x.at.get(), &out, 1);
  CHECK(out == 4);
  is(4, 1);
  keeps(5);
  side->synchronize();
  q.synchronize();
  is(5, 1);
  {
    weft::gpu::landing<stream> landing(q, 1);
    keeps(6);
    landing.fetch(x.at.get());
    CHECK(*static_cast<const std::uint8_t*>(landing.wait()) == 6);
    is(6, 1);
    keeps(7);
    landing.fetch(x.at.get());
    q.launch_graph();
    keeps(8);
    CHECK(*static_cast<const std::uint8_t*>(landing.wait()) == 7);  // of the graph before
    CHECK(q.keeps_back());
    is(7, 0);
  }
  q.launch_graph();
  q.synchronize();
  is(8, 0);
  bytes large((std::size_t{1} << 20) + 1);  // more than is staged
  keeps(10);
  large.set(q, 9);
  CHECK(large.first() == 9);
  is(10, 1);
  keeps(11);
  q.wait(never);  // nobody knows whose it is
  is(10, 1);
  q.synchronize();
  is(11, 0);
  CHECK(q.graphs().launches == 10);
  stream::event earlier;
  for (const int value : {13, 14}) {
    keeps(value);
    if (value == 13) q.record(earlier);
    q.launch_graph();
  }
  earlier.synchronize();
  if (weft_test::device_calls called{}; weft_test::count_calls(called))
    CHECK(x.first() == 13);  // and not for the other
  for (const int value : {15, 16, 17}) {
    keeps(value);
    if (value == 15) q.record(earlier);
    q.launch_graph();
  }
  CHECK(earlier.happened());  // before the graph behind the next began
  CHECK(x.first() >= 15);
  q.synchronize();
  is(17, 0);
  {
    stream own;
    own.begin_graph();
    x.set(own, 12);
  }
  CHECK(x.first() == 12);  // one that ends has run what it was given
}

TEST_CASE("a stream's graph: an executable for all that are alike") {
  stream q;
  bytes x, y;
  for (int i = 1; i <= 6; ++i) {
    q.begin_graph();
    x.set(q, 10 * i);
    q.start(1, 0, add{static_cast<std::uint8_t*>(x.at.get()), i});
    if (i == 4) x.copy_to(q, y);
    q.launch_graph();
  }
  q.synchronize();
  CHECK((x.first() == 66 && y.first() == 44));
  CHECK(q.graphs().launches == 6);
  CHECK(q.graphs().instantiations == 3);
}

TEST_CASE("a stream's graph: streams beside it go before it, in it, and behind it") {
  stream q;
  bytes x, y, z, w;
  const auto side = q.beside();
  for (int i = 1; i <= 4; ++i) {
    x.set(*side, i);  // given before
    q.begin_graph();
    x.copy_to(q, y);
    const auto another = q.beside();  // which begins behind what there is
    y.copy_to(*another, z);
    stream::event copied;
    another->record(copied);
    side->wait(copied);
    z.copy_to(*side, w);
    q.launch_graph();
    if (i % 2) q.synchronize();  // who waits first shows which wait is missing
    w.copy_to(*side, x);         // given behind it
    side->synchronize();
    CHECK(x.first() == i);
  }
}

TEST_CASE("a stream's graph and another's: neither waits for what the other keeps back") {
  stream q, other;
  bytes x, y;
  stream::event there, here;
  x.set(other, 1);
  other.record(there);
  q.begin_graph();
  y.set(q, 5);
  q.wait(there);
  CHECK(!q.keeps_back());  // what was is launched
  CHECK(q.graphs().flushes == 1);
  x.copy_to(q, y);
  q.synchronize();
  CHECK(y.first() == 1);
  q.begin_graph();
  x.set(q, 2);
  q.record(here);
  CHECK_THROWS_WITH_AS(other.wait(here),
                       doctest::Contains("a stream waits for an event that another rank's stream keeps back in its "
                                         "graph: launch_graph() there comes first"),
                       failure);
  q.launch_graph();
  other.wait(here);
  x.copy_to(other, y);
  other.synchronize();
  CHECK(y.first() == 2);
}

TEST_CASE("a stream's graph: uploads wait for none, however many; host functions run once, or end unrun") {
  stream q;
  bytes x, y;
  weft_test::device_calls called{};
  weft_test::count_calls(called);
  std::vector<int> ran;
  const auto given = std::make_shared<int>(0);
  for (int i = 0; i < 3; ++i) {
    q.begin_graph();
    for (int k = 0; k < 40; ++k) x.set(q, 40 * i + k);
    q.enqueue([&ran, i, given] { ran.push_back(i); });
    q.launch_graph();
  }
  if (weft_test::count_calls(called)) CHECK(called.waits_captured == 0);
  CHECK(q.graphs().flushes == 0);
  q.synchronize();
  CHECK(x.first() == 119);
  CHECK(ran == std::vector{0, 1, 2});
  CHECK(given.use_count() == 1);
  q.begin_graph();
  y.set(q, 1);
  q.enqueue([&ran, given] { ran.push_back(3); });
  CHECK(cudaStreamSynchronize(q.get()) != cudaSuccess);  // which a capture doesn't bear
  CHECK_THROWS_WITH_AS(q.launch_graph(),
                       doctest::Contains("a graph, which is kept back here, can't have this, or something before it"),
                       failure);
  CHECK(given.use_count() == 1);
  q.synchronize();
  CHECK(y.first() == 0);
  y.set(q, 2);
  q.synchronize();
  CHECK(y.first() == 2);
  CHECK(ran.size() == 3);
}
