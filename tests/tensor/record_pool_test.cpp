#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <weft/memory/record_pool.hpp>
#include <weft/tensor/value.hpp>

namespace {

TEST_CASE("a piece that is given back is the next of its size to be taken") {
  weft::record_pool p;
  void* a = p.allocate(100);
  void* b = p.allocate(128);  // the same size: powers of two
  void* c = p.allocate(129);
  CHECK(std::set<void*>{a, b, c}.size() == 3);
  p.release(a, 100);
  p.release(b, 128);
  p.release(c, 129);
  CHECK(p.allocate(101) == b);
  CHECK(p.allocate(65) == a);
  CHECK(p.allocate(256) == c);
  p.release(b, 101), p.release(a, 65), p.release(c, 256);
}

TEST_CASE("a piece has all the bytes that were asked for, aligned for any scalar") {
  weft::record_pool p;
  for (std::size_t bytes = 1; bytes < 5000; bytes = bytes * 3 / 2 + 1) {
    auto* at = static_cast<unsigned char*>(p.allocate(bytes));
    CHECK(reinterpret_cast<std::uintptr_t>(at) % alignof(std::max_align_t) == 0);
    for (std::size_t i = 0; i < bytes; ++i) at[i] = 0xff;  // a sanitizer sees what lies beyond
    p.release(at, bytes);
  }
}

TEST_CASE("a container that grows the same way again takes the pieces of the first time") {
  weft::record_pool p;
  const auto grow = [&] {
    std::vector<int, weft::pool_allocator<int>> v{weft::pool_allocator<int>(&p)};
    std::vector<const int*> places;
    for (int i = 0; i < 1000; ++i) {
      v.push_back(i);
      if (places.empty() || places.back() != v.data()) places.push_back(v.data());
    }
    return places;
  };
  const auto first = grow();
  CHECK(grow() == first);
}

TEST_CASE("an allocator without a pool takes from the heap") {
  std::vector<int, weft::pool_allocator<int>> v(100, 7);
  CHECK(v[99] == 7);
}

TEST_CASE("a slot goes back to the pool that it came from, and what it holds ends with it") {
  weft::record_pool p;
  weft::arena memory;
  weft::slot* first;
  {
    const weft::ref<weft::slot> s = weft::slot::make(&p);
    first = s.get();
    s->gradient = weft::local_array(memory, weft::dtype::f32, {1, {100}}, weft::memory::gradients);
    CHECK(memory.ledger().total > 0);
  }
  CHECK(memory.ledger().total == 0);
  const weft::ref<weft::slot> again = weft::slot::make(&p);
  CHECK(again.get() == first);
  CHECK(!again->gradient);
}

TEST_CASE("a slot and what it is promoted to know each other as long as both are there") {
  const auto make = [] { return weft::slot::make(nullptr); };
  weft::ref<weft::slot> s = make(), first = make(), second = make();
  s->add_promotion(*first, weft::id_of<weft::tp>);
  s->add_promotion(*second, weft::id_of<weft::dp>);
  first = {};
  CHECK(s->promotions == second.get());
  CHECK(s->promotions->next == nullptr);
  CHECK(second->promoted_from == s.get());
  s = {};
  CHECK(second->promoted_from == nullptr);
}

}  // namespace
