// Sorting on a stream: keys in the order of the bits asked for, those that are equal there as they were; running sums
// and the least of rows; and tokens chosen by them. Needs a GPU.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <weft/backend/cuda.cuh>
#include <weft/core/random.hpp>

#include "choice_trial.hpp"

namespace {

using weft::gpu::key_bits;

// Keys of which many are equal in `by`, each with its number in other bits.
std::vector<std::uint64_t> some_keys(std::int64_t count, key_bits by) {
  std::vector<std::uint64_t> keys;
  const weft::philox numbers{5, 7};
  constexpr std::uint64_t one = 1;
  const std::uint64_t mask = (one << (by.last - by.first)) - 1;
  for (std::int64_t i = 0; i < count; ++i)
    keys.push_back((numbers.word(static_cast<std::uint64_t>(i)) & mask) << by.first | static_cast<std::uint64_t>(i));
  return keys;
}

// What f(q, keys, out, room, bytes) leaves of `count` numbers, with so much room beside.
template <class T, class F>
std::vector<T> by_stream(const std::vector<std::uint64_t>& keys, std::size_t count, std::size_t beside, F f) {
  weft::gpu::stream q;
  const weft::memory_source memory = weft::gpu::device_memory();
  auto* const from = static_cast<std::uint64_t*>(memory.allocate(keys.size() * 8));
  auto* const to = static_cast<T*>(memory.allocate(count * sizeof(T)));
  void* const room = memory.allocate(beside);
  q.upload(keys.data(), from, keys.size() * 8);
  f(q, static_cast<const std::uint64_t*>(from), to, room, beside);
  std::vector<T> out(count);
  q.download(to, out.data(), count * sizeof(T));
  for (void* p : {static_cast<void*>(from), static_cast<void*>(to), room}) memory.release(p);
  return out;
}

// Of each key some bits, as a number that may be below zero.
struct signed_part {
  const std::uint64_t* keys;
  WEFT_ANYWHERE std::int64_t operator()(std::int64_t i) const { return static_cast<std::int64_t>(keys[i] << 20) >> 16; }
};

}  // namespace

TEST_CASE("a stream sorts keys by some of their bits and leaves equal ones in order") {
  // One tile of CUB's; several, which look back at each other; several digits.
  for (const auto [count, first, bits] :
       {std::array{1, 32, 1}, {2, 32, 9}, {700, 32, 3}, {3000, 32, 17}, {20000, 32, 9}, {9000, 20, 20}}) {
    CAPTURE(count);
    CAPTURE(bits);
    const key_bits by{first, first + bits};
    const std::vector<std::uint64_t> keys = some_keys(count, by);
    std::vector<std::uint64_t> expected = keys;
    std::stable_sort(expected.begin(), expected.end(),
                     [&](std::uint64_t a, std::uint64_t b) { return a >> by.first < b >> by.first; });
    CHECK(by_stream<std::uint64_t>(keys, keys.size(), weft::gpu::stream::sort_bytes<std::uint64_t>(count, by),
                                   [&](weft::gpu::stream& q, const std::uint64_t* from, std::uint64_t* to, void* room,
                                       std::size_t bytes) { q.sort(from, to, count, by, room, bytes); }) == expected);
  }
}

TEST_CASE("a stream adds numbers up to each, over several tiles of CUB's") {
  for (const int count : {1, 2, 700, 3000, 20000}) {
    CAPTURE(count);
    const std::vector<std::uint64_t> keys = some_keys(count, {20, 44});
    std::vector<std::int64_t> expected;
    std::int64_t sum = 0;
    for (int i = 0; i < count; ++i) expected.push_back(sum += signed_part{keys.data()}(i));
    CHECK(by_stream<std::int64_t>(
              keys, keys.size(), weft::gpu::stream::running_sum_bytes<signed_part>(count),
              [&](weft::gpu::stream& q, const std::uint64_t* from, std::int64_t* to, void* room, std::size_t bytes) {
                q.running_sum(count, signed_part{from}, to, room, bytes);
              }) == expected);
  }
}

TEST_CASE("a stream finds the least of each row, of rows in one tile of CUB's and over several") {
  for (const auto [rows, width] : {std::array{1, 1}, {1, 9000}, {7, 1}, {300, 3}, {5, 2048}, {3, 5001}}) {
    CAPTURE(rows);
    CAPTURE(width);
    const std::vector<std::uint64_t> keys = some_keys(rows * width, {20, 44});
    std::vector<std::uint64_t> expected;
    for (auto row = keys.begin(); row != keys.end(); row += width)
      expected.push_back(*std::min_element(row, row + width));
    CHECK(by_stream<std::uint64_t>(keys, expected.size(), weft::gpu::stream::row_least_bytes(rows, width),
                                   [&](weft::gpu::stream& q, const std::uint64_t* from, std::uint64_t* to, void* room,
                                       std::size_t bytes) { q.row_least(rows, width, from, to, room, bytes); }) ==
          expected);
  }
}

TEST_CASE("a device chooses the token that the host does") {
  weft::gpu::stream queue;
  weft_test::check_all_choices<weft::cuda_backend>(queue);
}
