// Runs a law of backends on every instruction set of this machine. The CPU's kernels give the same bits on every number
// of cores, which is more than the law asks. A sample has the portable ones and the best.
#pragma once

#include <functional>

#include <doctest/doctest.h>

#include <weft/backend/cpu/isa.hpp>
#include <weft/testing/backend/bench.hpp>

#include "sample.hpp"

inline void laws_on_cpu(const std::function<weft::testing::backend_report(int threads)>& law) {
  using weft::cpu::isa;
  const isa best = weft::cpu::current_isa();
  for (const isa level : {isa::portable, isa::avx2, isa::avx512, isa::avx512_bf16, isa::amx}) {
    if (!weft::cpu::has_isa(level)) continue;
    const bool sample = weft_test::sample_stride() > 1;
    if (sample && level != isa::portable && level != best) continue;
    INFO("instruction set ", std::string(weft::cpu::name_of(level)));
    const isa before = weft::cpu::use_isa(level);
    try {
      const auto report = law(sample && level == best ? 3 : 1);
      CHECK(report.lacking.empty());
      if (!sample) CHECK(report.digest == law(3).digest);
    } catch (const weft::failure& e) {
      FAIL_CHECK(std::string(e.what()));
    }
    weft::cpu::use_isa(before);
  }
}
