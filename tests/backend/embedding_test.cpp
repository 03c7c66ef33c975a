// Embedding rows and their gradient, with repeated ids and a slice of the vocabulary.
#include <weft/backend/cpu/embedding.hpp>

#include "kernel_testing.hpp"

using namespace testing;

namespace {

template <class T, class G>
void test_embedding() {
  struct shape {
    int64 rows, width, begin, count, vocabulary;
  };
  for (const shape s :
       {shape{1, 1, 0, 1, 1}, {50, 17, 0, 7, 7}, {300, 300, 10, 20, 40}, {9, 64, 0, 1000, 1000}, {0, 8, 0, 5, 5}}) {
    std::vector<std::int32_t> ids;
    generator source(1);
    for (int64 i = 0; i < s.rows; ++i)
      ids.push_back(static_cast<std::int32_t>(source.bits() % static_cast<std::uint64_t>(s.vocabulary)));
    if (s.rows > 10) ids[3] = -1;  // ids outside are nobody's
    const auto table = numbers<T>(s.count * s.width, 2), dy = numbers<T>(s.rows * s.width, 3);
    const auto old = numbers<G>(s.count * s.width, 4);
    doubles y(dy.size()), gradient(table.size()), added(table.size());
    for (int64 r = 0; r < s.rows; ++r) {
      const int64 id = ids[r] - s.begin;
      if (id < 0 || id >= s.count) continue;
      for (int64 i = 0; i < s.width; ++i) {
        y[r * s.width + i] = table[id * s.width + i];
        gradient[id * s.width + i] += static_cast<double>(dy[r * s.width + i]);
      }
    }
    for (std::size_t i = 0; i < added.size(); ++i) added[i] = gradient[i] + static_cast<double>(old[i]);
    on_every_isa([&](team& t) {
      std::vector<T> got(dy.size(), make<T>(9));
      weft::cpu::embedding(t, s.rows, s.width, ids.data(), s.begin, s.count, table.data(), got.data());
      check_close(got, y, 0, 1e-300);
      std::vector<G> dtable(table.size(), make<G>(9)), sum = old;
      weft::cpu::embedding_backward(t, s.rows, s.width, ids.data(), s.begin, s.count, dy.data(), dtable.data(), false);
      weft::cpu::embedding_backward(t, s.rows, s.width, ids.data(), s.begin, s.count, dy.data(), sum.data(), true);
      // At most 50 rows share an id: 50 additions of numbers below 100, then one rounding to G.
      check_close(dtable, gradient, rounding<G>, 50 * 100 * sum_rounding<G>);
      check_close(sum, added, rounding<G>, 50 * 100 * sum_rounding<G>);
      return dtable;
    });
  }
}

}  // namespace

TEST_CASE("embedding and its gradient") {
  test_embedding<float, float>();
  test_embedding<bf16, float>();
  test_embedding<bf16, bf16>();
  test_embedding<fp16, fp16>();
  test_embedding<double, double>();
}
