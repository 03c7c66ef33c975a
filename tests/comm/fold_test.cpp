#include "weft/comm/detail/fold.hpp"

#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <weft/testing/collective.hpp>

namespace {

template <class T>
bool same(T a, T b) {
  return a.bits == b.bits;
}

template <class T>
void conversions_match() {
  std::vector<T> all;
  for (int bits = 0; bits < 65536; ++bits) all.push_back(T::from_bits(static_cast<std::uint16_t>(bits)));
  std::vector<float> wide(all.size());
  for (int i = 0; i < 65536; i += 8) {
    weft::detail::four_f32 x, y;
    weft::detail::load_wide(x, y, &all[i]);
    std::memcpy(&wide[i], &x, sizeof x);
    std::memcpy(&wide[i + 4], &y, sizeof y);
  }
  int wrong = 0;
  for (int i = 0; i < 65536; ++i) {
    wrong += std::bit_cast<std::uint32_t>(wide[i]) != std::bit_cast<std::uint32_t>(float(all[i]));
  }
  CHECK(wrong == 0);

  std::vector<float> in;
  for (int i = 0; i < 65536; ++i) {
    in.push_back(float(T::from_bits(static_cast<std::uint16_t>(i))));
    in.push_back(std::bit_cast<float>(
        static_cast<std::uint32_t>(weft::testing::detail::collectives::mix(static_cast<std::uint64_t>(i)))));
    const auto tie = std::bit_cast<std::uint32_t>(in[in.size() - 2]);  // halfway to the neighbour, and next to it
    for (std::uint32_t near : {0x7fffu, 0x8000u, 0x8001u, 0x0fffu, 0x1000u, 0x1001u}) {
      in.push_back(std::bit_cast<float>(tie + near));
    }
  }
  for (float special : {65504.f, 65519.f, 65520.f, 1e30f, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, 0x1p-26f, 0x1p-140f}) {
    in.push_back(special);
    in.push_back(-special);
  }
  std::vector<T> out;
  while (in.size() % 8 != 0) in.push_back(1.f);
  out.resize(in.size());
  for (std::size_t i = 0; i < in.size(); i += 8) {
    weft::detail::four_f32 x, y;
    std::memcpy(&x, &in[i], sizeof x);
    std::memcpy(&y, &in[i + 4], sizeof y);
    weft::detail::store_narrow(&out[i], x, y);
  }
  wrong = 0;
  for (std::size_t i = 0; i < in.size(); ++i) wrong += !same(out[i], T(in[i]));
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("the vector conversions are those of the element types") {
  conversions_match<weft::bf16>();
  conversions_match<weft::fp16>();
}

TEST_CASE("a NaN on any rank gives NaN, in max and min") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int at = 0; at < 3; ++at) {
    for (int lane : {0, 5, 17}) {
      std::vector<float> data[3] = {std::vector<float>(18, 1), std::vector<float>(18, 2), std::vector<float>(18, 3)};
      data[at][lane] = nan;
      std::vector<float> out(18);
      const std::byte* in[3];
      for (int k = 0; k < 3; ++k) in[k] = reinterpret_cast<const std::byte*>(data[k].data());
      std::byte* to[1] = {reinterpret_cast<std::byte*>(out.data())};
      for (auto [how, other] : {std::pair{weft::reduction::max, 3.f}, std::pair{weft::reduction::min, 1.f}}) {
        weft::detail::fold(weft::dtype::f32, how, {in, 3, 0, to, 1, 0, 18});
        for (int i = 0; i < 18; ++i) CHECK((i == lane ? out[i] != out[i] : out[i] == other));
      }
    }
  }
}

TEST_CASE("integer sums wrap") {
  const std::int32_t big = std::numeric_limits<std::int32_t>::max(), one = 1;
  std::int32_t out = 0;
  const std::byte* in[2] = {reinterpret_cast<const std::byte*>(&big), reinterpret_cast<const std::byte*>(&one)};
  std::byte* to[1] = {reinterpret_cast<std::byte*>(&out)};
  weft::detail::fold(weft::dtype::i32, weft::reduction::sum, {in, 2, 0, to, 1, 0, 1});
  CHECK(out == std::numeric_limits<std::int32_t>::min());
}
