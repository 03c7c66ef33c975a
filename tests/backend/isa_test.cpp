// Instruction sets: detection, forcing one, and the vectors of every target against plain arithmetic.
#include <bit>
#include <cmath>
#include <cstdint>

#include <doctest/doctest.h>

#include <weft/backend/cpu/simd.hpp>

#define WEFT_KERNELS "backend/simd_probe.inl"
#include <weft/backend/cpu/each_target.inl>

using namespace weft;
using namespace weft::cpu;

namespace weft::cpu {
template <class T>
int probe_copy(const T* from, T* to, std::int64_t n) {
  WEFT_DISPATCH(probe_copy_kernel, from, to, n);
}
inline void probe_math(const float* from, float* to) { WEFT_DISPATCH(probe_math_kernel, from, to); }
inline int probe_transpose(const float* from, float* to) { WEFT_DISPATCH(probe_transpose_kernel, from, to); }
}  // namespace weft::cpu

namespace {
template <class F>
void on_every_isa(F&& f) {
  const isa before = current_isa();
  for (isa level : {isa::portable, isa::avx2, isa::avx512, isa::avx512_bf16, isa::amx}) {
    if (!has_isa(level)) continue;
    use_isa(level);
    INFO("instruction set ", name_of(level));
    f();
  }
  use_isa(before);
}

template <class T>
void check_copies() {
  on_every_isa([] {
    float source[40];
    for (int i = 0; i < 40; ++i) source[i] = static_cast<float>(i * i - 300) * 1.37f;
    source[5] = INFINITY, source[6] = -0.0f, source[7] = 1e-7f, source[8] = NAN;
    T from[40];
    for (int i = 0; i < 40; ++i) from[i] = T(source[i]);
    for (std::int64_t n = 0; n <= 40; ++n) {
      T to[41];
      for (T& value : to) value = T(55.0f);
      const int lanes = probe_copy(from, to, n);
      CHECK(lanes >= 4);
      for (std::int64_t i = 0; i < 41; ++i) {
        const float wanted = i < n ? static_cast<float>(from[i]) : 55.0f, got = static_cast<float>(to[i]);
        if (std::isnan(wanted))
          CHECK(std::isnan(got));
        else
          CHECK(got == wanted);
      }
    }
  });
}
}  // namespace

TEST_CASE("portable code is always there, and unsupported levels are refused") {
  CHECK(has_isa(isa::portable) == (WEFT_LEAST_ISA == 0));
  CHECK(has_isa(current_isa()));
  for (isa level : {isa::avx2, isa::avx512, isa::avx512_bf16, isa::amx})
    if (!has_isa(level)) CHECK_THROWS_AS(use_isa(level), failure);
}

TEST_CASE("loads and stores, whole and partial, give back every value") {
  check_copies<float>();
  check_copies<bf16>();
  check_copies<fp16>();
  check_copies<double>();
}

TEST_CASE("narrowing rounds like the element types do") {
  on_every_isa([] {
    for (std::uint32_t i = 0; i < 20000; ++i) {
      const std::uint32_t bits = i * 214013u + (i << 17);
      float from[16], to[96];
      for (std::uint32_t j = 0; j < 16; ++j) from[j] = std::bit_cast<float>(bits + j * 0x08010001u);
      probe_math(from, to);
      for (int j = 0; j < 16; ++j) {
        const float b = bf16(from[j]), h = fp16(from[j]);
        CHECK_MESSAGE((to[j] == b || (std::isnan(to[j]) && std::isnan(b))), from[j]);
        CHECK_MESSAGE((to[16 + j] == h || (std::isnan(to[16 + j]) && std::isnan(h))), from[j]);
      }
      if (i > 300) i += 50;
    }
  });
}

TEST_CASE("arithmetic, square roots and sums over lanes") {
  on_every_isa([] {
    float from[16], to[96];
    for (int j = 0; j < 16; ++j) from[j] = static_cast<float>((j * 7) % 16) - 3.0f;
    probe_math(from, to);
    float sum = 0, largest = -1000;
    for (int j = 0; j < 16; ++j) {
      CHECK(to[32 + j] == std::sqrt(std::abs(from[j])));  // correctly rounded everywhere
      CHECK(to[48 + j] == (from[j] > 2.0f ? from[j] : 2.0f));
      CHECK(to[64 + j] == from[j] * 3.0f + 1.0f);  // exact: small integers
      sum += from[j];
      largest = largest > from[j] ? largest : from[j];
    }
    CHECK(to[80] == sum);
    CHECK(to[81] == largest);
  });
}

TEST_CASE("a square of lanes is transposed") {
  on_every_isa([] {
    float from[256], to[256];
    for (int i = 0; i < 256; ++i) from[i] = static_cast<float>(i);
    const int lanes = probe_transpose(from, to);
    for (int i = 0; i < lanes; ++i)
      for (int j = 0; j < lanes; ++j) CHECK(to[i * lanes + j] == from[j * lanes + i]);
  });
}
