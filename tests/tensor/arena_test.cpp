// The arena: best fit, neighbours that join, the ledger by category and its peaks, and no growth once a pattern
// repeats.
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <weft/core/random.hpp>
#include <weft/memory/arena.hpp>

#include "sample.hpp"

namespace {

using weft::arena;
using weft::memory;
using weft::storage;

TEST_CASE("blocks are aligned to 64 bytes, writable to their end, and never overlap") {
  arena a;
  std::vector<storage> held;
  std::vector<std::size_t> sizes{1, 63, 64, 65, 0, 1000, 4096, 100000};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    held.push_back(a.allocate(sizes[i], memory::buffers));
    CHECK(reinterpret_cast<std::uintptr_t>(held[i].data()) % arena::alignment == 0);
    std::memset(held[i].data(), static_cast<int>(i + 1), sizes[i]);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i)
    for (std::size_t b = 0; b < sizes[i]; ++b)
      if (held[i].data()[b] != std::byte(i + 1)) FAIL("block " << i << " was overwritten");
}

TEST_CASE("the smallest block that fits is taken") {
  arena a;
  auto large = a.allocate(64 * 20, memory::buffers);
  auto wall1 = a.allocate(64, memory::buffers);
  auto small = a.allocate(64 * 17, memory::buffers);
  auto wall2 = a.allocate(64, memory::buffers);
  auto middle = a.allocate(64 * 18, memory::buffers);
  auto wall3 = a.allocate(64, memory::buffers);
  std::byte *at_large = large.data(), *at_small = small.data(), *at_middle = middle.data();
  large = {}, small = {}, middle = {};
  CHECK(a.allocate(64 * 19, memory::buffers).data() == at_large);  // one use each, given back at once
  CHECK(a.allocate(64 * 18, memory::buffers).data() == at_middle);
  CHECK(a.allocate(64 * 16 + 1, memory::buffers).data() == at_small);
}

TEST_CASE("freed neighbours join, in whatever order they are freed") {
  int order[] = {0, 1, 2};
  do {
    arena a({}, 1 << 16);
    storage parts[3];
    for (storage& p : parts) p = a.allocate((1 << 16) / 4, memory::buffers);
    auto rest = a.allocate((1 << 16) / 4, memory::buffers);
    std::byte* begin = parts[0].data();
    for (int i : order) parts[i] = {};
    CHECK(a.ledger().chunks == 1);
    auto joined = a.allocate((1 << 16) / 4 * 3, memory::buffers);  // fits only where all three were
    CHECK(joined.data() == begin);
    CHECK(a.ledger().chunks == 1);
  } while (std::next_permutation(order, order + 3));
}

TEST_CASE("the ledger adds up by category, and knows its peaks") {
  arena a;
  const auto at = [&](memory m) { return a.ledger().current[static_cast<std::size_t>(m)]; };
  const auto peak = [&](memory m) { return a.ledger().peak[static_cast<std::size_t>(m)]; };
  auto p = a.allocate(1000, memory::parameters);  // 1024 bytes, a multiple of 64
  auto g = a.allocate(64, memory::gradients);
  CHECK(at(memory::parameters) == 1024);
  CHECK(at(memory::gradients) == 64);
  CHECK(a.ledger().total == 1088);
  {
    auto x = a.allocate(6400, memory::activations);
    CHECK(a.ledger().peak_total == 7488);
  }
  g = {};
  auto y = a.allocate(640, memory::activations);
  CHECK(at(memory::activations) == 640);
  CHECK(peak(memory::activations) == 6400);
  CHECK(peak(memory::gradients) == 64);
  CHECK(at(memory::gradients) == 0);
  CHECK(a.ledger().total == 1664);
  CHECK(a.ledger().peak_total == 7488);
  CHECK(a.ledger().at_peak[static_cast<std::size_t>(memory::parameters)] == 1024);
  CHECK(a.ledger().at_peak[static_cast<std::size_t>(memory::gradients)] == 64);
  CHECK(a.ledger().at_peak[static_cast<std::size_t>(memory::activations)] == 6400);
  a.reset_peaks();
  CHECK(a.ledger().peak_total == 1664);
  CHECK(peak(memory::activations) == 640);
  CHECK(peak(memory::gradients) == 0);
}

TEST_CASE("a block lives as long as its last handle") {
  arena a;
  storage first = a.allocate(64, memory::data);
  CHECK(first.unique());
  storage second = first;
  CHECK(!first.unique());
  storage third = std::move(first);
  CHECK(!first);
  CHECK(third.data() == second.data());
  const storage& itself = second;
  second = itself;
  second = {};
  CHECK(third.unique());
  CHECK(a.ledger().total == 64);
  third = {};
  CHECK(a.ledger().total == 0);
  CHECK(!third.unique());
  CHECK(third.data() == nullptr);
}

TEST_CASE("random use keeps every byte, and gives all of it back") {
  arena a({}, 1 << 20);
  const weft::philox numbers{1, 2};
  std::vector<std::pair<storage, std::size_t>> held;
  std::size_t expected = 0;
  const int steps = weft_test::sampled(20000);
  for (int i = 0; i < steps; ++i) {
    const auto r = numbers.block(static_cast<std::uint64_t>(i));
    if (held.size() < 5 || (r[0] % 2 && held.size() < 60)) {
      const std::size_t size = 1 + (std::size_t{r[1]} % (r[2] % 4 ? 500 : 40000));
      held.emplace_back(a.allocate(size, memory::activations), size);
      std::memset(held.back().first.data(), static_cast<int>(size % 251), size);
      expected += (size + 63) / 64 * 64;
    } else {
      const std::size_t which = r[3] % held.size();
      const auto [data, size] = std::pair{held[which].first.data(), held[which].second};
      bool intact = true;
      for (std::size_t b = 0; b < size; ++b) intact = intact && data[b] == std::byte(size % 251);
      if (!intact) FAIL("a block changed while it was held");
      expected -= (size + 63) / 64 * 64;
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
    }
    if (a.ledger().total != expected) FAIL("the ledger says " << a.ledger().total << ", not " << expected);
  }
  held.clear();
  CHECK(a.ledger().total == 0);
  CHECK(a.ledger().reserved == std::size_t(a.ledger().chunks) << 20);
  // All of a chunk is one block again: a whole one can be had without asking the system.
  const int chunks = a.ledger().chunks;
  auto whole = a.allocate(std::size_t{1} << 20, memory::buffers);
  CHECK(a.ledger().chunks == chunks);
}

TEST_CASE("a pattern that repeats makes the arena grow no more") {
  arena a({}, 1 << 16);
  const weft::philox numbers{5, 6};
  const auto step = [&] {  // sizes like a training step's: kept forward, given back backward, with temporaries between
    std::vector<storage> kept;
    for (std::uint64_t i = 0; i < 40; ++i) {
      auto temporary = a.allocate(1 + numbers.word(2 * i) % 30000, memory::buffers);
      kept.push_back(a.allocate(1 + numbers.word(2 * i + 1) % 20000, memory::activations));
    }
    while (!kept.empty()) {
      auto gradient = a.allocate(5000, memory::gradients);
      kept.pop_back();
    }
  };
  step();
  const auto reserved = a.ledger().reserved;
  const auto peak = a.ledger().peak_total;
  for (int i = 0; i < 20; ++i) step();
  CHECK(a.ledger().reserved == reserved);
  CHECK(a.ledger().peak_total == peak);
}

TEST_CASE("a system without memory is an error that says what to change") {
  arena a({[](std::size_t) -> void* { return nullptr; }, [](void*) {}});
  CHECK_THROWS_WITH_AS(a.allocate(std::size_t{1} << 30, memory::activations),
                       doctest::Contains("out of memory: the arena holds 0 MiB and asked for 1024 MiB more"),
                       weft::failure);
}

TEST_CASE("chunks come from the source that was given, and go back to it") {
  static int open;
  open = 0;
  {
    arena a({[](std::size_t n) {
               ++open;
               return std::aligned_alloc(4096, n);
             },
             [](void* p) {
               --open;
               std::free(p);
             }},
            4096);
    auto x = a.allocate(10, memory::data), y = a.allocate(10000, memory::data);
    CHECK(open == 2);
  }
  CHECK(open == 0);
}

}  // namespace
