// The operators that count and fail, and that they do. Everything else in this folder relies on it.
#include "allocation/heap.hpp"

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

namespace {

void* take(std::size_t bytes, std::size_t alignment) {
  using weft_test::heap_counter;
  if (heap_counter::on.load(std::memory_order_relaxed)) heap_counter::taken.fetch_add(1, std::memory_order_relaxed);
  using weft_test::heap_failure;
  if (heap_failure::left > 0 && bytes >= heap_failure::least && --heap_failure::left == 0) throw std::bad_alloc();
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* at = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ ? std::malloc(bytes ? bytes : 1)
                                                           : std::aligned_alloc(alignment, whole);
  if (!at) throw std::bad_alloc();
  return at;
}
void* take_or_null(std::size_t bytes, std::size_t alignment) noexcept {
  try {
    return take(bytes, alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

// The other forms of new and delete end in these.
void* operator new(std::size_t bytes) { return take(bytes, 1); }
void* operator new[](std::size_t bytes) { return take(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment));
}
// These too, by themselves: under AddressSanitizer they don't.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return take_or_null(bytes, 1); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return take_or_null(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return take_or_null(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return take_or_null(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* at) noexcept { std::free(at); }
void operator delete[](void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete[](void* at, std::size_t) noexcept { std::free(at); }
void operator delete(void* at, std::align_val_t) noexcept { std::free(at); }
void operator delete[](void* at, std::align_val_t) noexcept { std::free(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { std::free(at); }
void operator delete[](void* at, std::size_t, std::align_val_t) noexcept { std::free(at); }

namespace {

using weft_test::look_at;

struct alignas(128) wide {
  char bytes[128];
};

template <class F>
long counted(F&& f) {
  weft_test::heap_counter::taken = 0;
  weft_test::heap_counter::on = true;
  f();
  weft_test::heap_counter::on = false;
  return weft_test::heap_counter::taken;
}

TEST_CASE("the counter sees every form of new, on every thread, while it is on") {
  CHECK(counted([] { look_at(std::vector<int>(100).data()); }) == 1);
  CHECK(counted([] { look_at(std::make_unique<int[]>(100).get()); }) == 1);
  CHECK(counted([] { look_at(std::make_shared<std::string>(40, 'x')->data()); }) == 2);
  CHECK(counted([] { look_at(std::make_unique<wide>().get()); }) == 1);
  CHECK(counted([] { look_at(std::make_unique<wide[]>(3).get()); }) == 1);
  const long thread_alone = counted([] { std::thread([] {}).join(); });
  CHECK(counted([] { std::thread([] { look_at(std::vector<int>(100).data()); }).join(); }) == thread_alone + 1);
  CHECK(counted([] {}) == 0);
  look_at(std::vector<int>(100).data());  // counted by nobody
  CHECK(weft_test::heap_counter::taken == 0);
}

TEST_CASE("one allocation fails, of the thread that asked for it, and of no fewer bytes") {
  weft_test::heap_failure::least = 100, weft_test::heap_failure::left = 2;
  look_at(std::vector<char>(99).data());
  look_at(std::vector<char>(100).data());
  std::thread([] { look_at(std::vector<char>(100).data()); }).join();
  CHECK_THROWS_AS(look_at(std::vector<char>(100).data()), std::bad_alloc);
  look_at(std::vector<char>(100).data());
  CHECK(weft_test::heap_failure::left == 0);
}

}  // namespace
