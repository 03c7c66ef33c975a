// Sorting on a stream: keys in the order of the bits asked for, those that are equal there as they were; and tokens
// chosen by it. Needs a GPU.
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

std::vector<std::uint64_t> sorted_by_stream(const std::vector<std::uint64_t>& keys, key_bits by) {
  weft::gpu::stream q;
  const auto count = static_cast<std::int64_t>(keys.size());
  const std::size_t beside = q.sort_bytes<std::uint64_t>(count, by);
  const weft::memory_source memory = weft::gpu::device_memory();
  const auto get = [&](std::size_t bytes) { return static_cast<std::uint64_t*>(memory.allocate(bytes)); };
  std::uint64_t *const from = get(keys.size() * 8), *const to = get(keys.size() * 8), *const room = get(beside);
  q.upload(keys.data(), from, keys.size() * 8);
  q.sort(from, to, count, by, room, beside);
  std::vector<std::uint64_t> out(keys.size());
  q.download(to, out.data(), out.size() * 8);
  for (void* p : {from, to, room}) memory.release(p);
  return out;
}

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
    CHECK(sorted_by_stream(keys, by) == expected);
  }
}

TEST_CASE("a device chooses the token that the host does") {
  weft::gpu::stream queue;
  weft_test::check_all_choices<weft::cuda_backend>(queue);
}
