// Rotary embedding against the rotation in double; the inverse turns back.
#include <weft/backend/cpu/rope.hpp>

#include "kernel_testing.hpp"

using namespace testing;

TEST_CASE_TEMPLATE("rope", T, double, float, bf16, fp16) {
  using A = weft::accumulate_t<T>;
  struct shape {
    int64 batch, seq, heads, head_dim;
  };
  for (const shape s : {shape{1, 1, 1, 2}, {2, 5, 3, 10}, {3, 17, 2, 64}, {1, 40, 6, 128}}) {
    const int64 half = s.head_dim / 2, first = 3, size = s.batch * s.seq * s.heads * s.head_dim;
    std::vector<A> cosines, sines;
    for (int64 p = 0; p < s.seq + first; ++p)
      for (int64 i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(p) * std::pow(1e4, -static_cast<double>(i) / static_cast<double>(half));
        cosines.push_back(static_cast<A>(std::cos(angle)));
        sines.push_back(static_cast<A>(std::sin(angle)));
      }
    const auto x = numbers<T>(size, 1), old = numbers<T>(size, 2);
    for (const bool inverse : {false, true}) {
      doubles y(x.size()), added(x.size());
      for (int64 row = 0; row < s.batch * s.seq; ++row)
        for (int64 h = 0; h < s.heads; ++h)
          for (int64 i = 0; i < half; ++i) {
            const int64 at = (row * s.heads + h) * s.head_dim + i, angle = (first + row % s.seq) * half + i;
            const double a = x[at], b = x[at + half], c = cosines[angle], sine = inverse ? -sines[angle] : sines[angle];
            y[at] = a * c - b * sine;
            y[at + half] = b * c + a * sine;
          }
      for (std::size_t i = 0; i < x.size(); ++i) added[i] = y[i] + static_cast<double>(old[i]);
      on_every_isa([&](team& t) {
        std::vector<T> got(x.size()), sum = old, in_place = x;
        const auto turn = [&](const T* from, bool back, T* to, bool add) {
          weft::cpu::rope(t, s.batch, s.seq, s.heads, s.head_dim, from, cosines.data(), sines.data(), first, back, to,
                          add);
        };
        turn(x.data(), inverse, got.data(), false);
        turn(x.data(), inverse, sum.data(), true);
        turn(in_place.data(), inverse, in_place.data(), false);
        // Two products of at most 2, each rounded, then their sum (and the old value): absolute 6 roundings of 4.
        check_close(got, y, rounding<T>, 16 * sum_rounding<T>);
        check_close(sum, added, rounding<T>, 24 * sum_rounding<T>);
        CHECK(same_bits(in_place, got));
        turn(in_place.data(), !inverse, in_place.data(), false);
        check_close(in_place, widened(x), 0, 8 * rounding<T>);  // each turn rounds numbers below 2.9 to T
        return got;
      });
    }
  }
  team t;
  CHECK_THROWS_AS(weft::cpu::rope<float>(t, 1, 1, 1, 3, nullptr, nullptr, nullptr, 0, false, nullptr, false),
                  weft::failure);
}
