// The AMX kernel of bf16 on emulated tiles. What matrix products have to give is tried in products_law_test.cpp.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/backend/cpu/matmul.hpp>

#include "matmul_reference.hpp"

using namespace weft;
using namespace weft::cpu;
using weft::test::matmul_case;

TEST_CASE("the AMX kernel on emulated tiles: packing, tails, sums") {
  // The same kernel body as on hardware tiles; what this does not run is the tile instructions themselves.
  const auto run = [](auto out, std::uint32_t seed) {
    using result = decltype(out);
    test::random random{seed};
    team pair(2);
    for (int round = 0; round < 60; ++round) {
      const auto shape = matmul_case<bf16, result>::draw(random);
      INFO(shape.describe());
      const auto emulated = [&](auto kernels) {
        shape.check([&](const matmul_shape& s, const bf16* a, strides sa, const bf16* b, strides sb, result* c,
                        strides sc, bool accumulate) {
          for (std::int64_t i = 0; i < s.batch && s.m * s.n * s.k > 0 && s.k <= 4096; ++i)
            cpu::detail::matmul_blocked<bf16, result>(
                round % 2 ? &pair : nullptr, kernels,
                {s.m, s.n, s.k, a + i * sa.batch, sa.row, sa.column, b + i * sb.batch, sb.row, sb.column,
                 c + i * sc.batch, sc.row, accumulate});
          if (s.m * s.n * s.k == 0 || s.k > 4096) matmul(pair, s, a, sa, b, sb, c, sc, accumulate);
        });
      };
#if WEFT_LEAST_ISA == 0
      emulated(portable::tile_kernels<portable::emulated_tiles, result>());
#endif
#if defined(WEFT_X86)
      if (has_isa(isa::avx512)) emulated(avx512::tile_kernels<avx512::emulated_tiles, result>());
#endif
    }
  };
  run(bf16(), 7);
  run(float(), 8);
}
