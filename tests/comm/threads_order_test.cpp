// Reductions over threads: the order of the sum, equality over ranks, and how they are rounded.
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <weft/testing/collective.hpp>

#include "watch.hpp"
#include "weft/comm/threads.hpp"

namespace {

/// Values whose sum depends on its order.
float rough(int rank, std::int64_t i) {
  const auto bits =
      weft::testing::detail::collectives::mix(static_cast<std::uint64_t>(i) << 8 | static_cast<std::uint64_t>(rank));
  const float mantissa = 1.f + static_cast<float>(bits % 8388593) * 0x1p-23f;
  return (bits >> 40 & 1 ? -mantissa : mantissa) * (bits >> 41 & 1 ? 1024.f : 1.f);
}

template <class T>
void check_order(int ranks, std::int64_t count) {
  using sum = std::conditional_t<sizeof(T) == 2, float, T>;
  std::vector<T> expected(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    sum total = static_cast<sum>(T(rough(0, i)));
    for (int r = 1; r < ranks; ++r) total += static_cast<sum>(T(rough(r, i)));
    expected[i] = T(total);
  }
  weft::threads::launch(ranks, [&](weft::threads& c) {
    std::vector<T> x, slice(static_cast<std::size_t>(count / ranks));  // of at least one element
    for (std::int64_t i = 0; i < count; ++i) x.push_back(T(rough(c.rank(), i)));
    c.reduce_scatter(x.data(), slice.data(), count / ranks, weft::dtype_of<T>, weft::reduction::sum).wait();
    c.all_reduce(x.data(), x.data(), count, weft::dtype_of<T>, weft::reduction::sum).wait();
    CHECK(std::memcmp(x.data(), expected.data(), count * sizeof(T)) == 0);
    CHECK(std::memcmp(slice.data(), expected.data() + c.rank() * (count / ranks), slice.size() * sizeof(T)) == 0);
  });
}

}  // namespace

TEST_CASE("a sum over threads is the sum in rank order, bit for bit, on every rank") {
  const watchdog guard("sums over threads");
  for (int ranks : {2, 3, 8}) {
    for (std::int64_t count : {9, 1029, 60001}) {
      CAPTURE(ranks);
      CAPTURE(count);
      check_order<float>(ranks, count);
      check_order<double>(ranks, count);
      check_order<weft::bf16>(ranks, count);
      check_order<weft::fp16>(ranks, count);
    }
  }
}

TEST_CASE("16-bit floats are summed in float and rounded once") {
  // 256 + 1 + 1 rounds to 256 in bf16 when each addition is rounded; summed in float it is 258.
  weft::threads::launch(3, [](weft::threads& c) {
    weft::bf16 x[9];
    for (weft::bf16& e : x) e = weft::bf16(c.rank() == 0 ? 256.f : 1.f);
    c.all_reduce(x, x, 9, weft::dtype::bf16, weft::reduction::sum).wait();
    for (weft::bf16 e : x) CHECK(float(e) == 258.f);
  });
}
