// Strided copies against loops, bit for bit: permutations, slices, padding, repetition.
#include <algorithm>

#include <weft/backend/cpu/copy.hpp>

#include "kernel_testing.hpp"

using namespace testing;

namespace {

struct layout {
  std::vector<int64> extents, x, y;
  int64 x_size, y_size;
};

layout permuted(const std::vector<int64>& extents, const std::vector<int>& order) {
  layout l{extents, std::vector<int64>(extents.size()), std::vector<int64>(extents.size()), 1, 1};
  for (std::size_t d = extents.size(); d-- > 0;) l.x[d] = l.x_size, l.x_size *= extents[d];
  for (std::size_t d = extents.size(); d-- > 0;) {
    const auto from = static_cast<std::size_t>(order[d]);
    l.y[from] = l.y_size, l.y_size *= extents[from];
  }
  return l;
}

template <class T>
void test_copy(const layout& l) {
  const auto x = numbers<T>(l.x_size, 1), old = numbers<T>(l.y_size, 2);
  std::vector<T> want = old;
  int64 size = 1;
  for (const int64 e : l.extents) size *= e;
  for (int64 i = 0; i < size; ++i) {
    int64 rest = i, ax = 0, ay = 0;
    for (std::size_t d = l.extents.size(); d-- > 0;) {
      ax += rest % l.extents[d] * l.x[d], ay += rest % l.extents[d] * l.y[d];
      rest /= l.extents[d];
    }
    want[ay] = x[ax];
  }
  on_every_isa([&](team& t) {
    std::vector<T> got = old;
    const int rank = static_cast<int>(l.extents.size());
    weft::cpu::copy(t, rank, l.extents.data(), sizeof(T), x.data(), l.x.data(), got.data(), l.y.data());
    CHECK(same_bits(got, want));
    return got;
  });
}

}  // namespace

TEST_CASE_TEMPLATE("copy: every permutation of four dimensions", T, double, float, bf16, fp16) {
  std::vector<int> order = {0, 1, 2, 3};
  do {
    test_copy<T>(permuted({3, 17, 2, 33}, order));
    test_copy<T>(permuted({2, 16, 1, 64}, order));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("copy: slices, padding, repetition, rank 0, large") {
  test_copy<float>({{5, 7}, {20, 1}, {7, 1}, 100, 35});          // a slice of columns
  test_copy<float>({{5, 7}, {7, 1}, {20, 1}, 35, 100});          // into a padded array
  test_copy<bf16>({{5, 7, 9}, {0, 9, 1}, {63, 9, 1}, 63, 315});  // repeated
  test_copy<float>({{5, 7}, {2, 10}, {3, 15}, 75, 150});         // neither side contiguous
  test_copy<float>({{}, {}, {}, 1, 1});                          // one element
  test_copy<float>({{0, 4}, {4, 1}, {4, 1}, 1, 1});              // none
  test_copy<float>(permuted({300, 200}, {1, 0}));
  test_copy<bf16>(permuted({2, 3, 2, 5, 2, 3, 2, 2}, {7, 6, 5, 4, 3, 2, 1, 0}));
}
