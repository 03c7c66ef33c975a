// Initial values: each element is a function of its global index, whatever part of the slice is asked for.
#include <iterator>

#include <doctest/doctest.h>

#include <weft/backend/cpu.hpp>

using namespace weft;

TEST_CASE("normal: by global index, zero in padding, any part") {
  cpu::team cores(1, 0);
  // Rows 3 to 5 of [5, 7], of which the last is padding; columns 4 to 7, of which the last is.
  const placed_slice at{.ndim = 2, .local = {3, 4}, .global = {5, 7}, .first = {3, 4}, .valid = {2, 3}};
  const philox words{9, stream_of("w")};
  double all[12];
  cpu_backend::normal(cores, at, 0, 12, 0.5, 2.0, words, std::data(all));
  for (int i = 0; i < 12; ++i) {
    const int row = i / 4, column = i % 4;
    const bool inside = row < 2 && column < 3;
    CHECK(at.global_index(i) == (inside ? (3 + row) * 7 + 4 + column : -1));
    CHECK(all[i] == (inside ? 0.5 + 2.0 * double(words.normal(std::uint64_t((3 + row) * 7 + 4 + column))) : 0));
  }
  bf16 part[5];
  cpu_backend::normal(cores, at, 4, 5, 0.5, 2.0, words, std::data(part));
  for (int i = 0; i < 5; ++i) CHECK(float(part[i]) == float(bf16(float(all[4 + i]))));
  cpu_backend::normal(cores, at, 2, 3, 3.0, 0.0, words, std::data(part));
  CHECK((float(part[0]) == 3 && float(part[1]) == 0 && float(part[2]) == 3));
}
