// Which instruction set the CPU kernels use, found while the program runs.
// Invariant: a level is reported only if processor and operating system both support it and all its registers, and the
// program has kernels for it: those below what its own compiler options (-march) ask for are left out.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <weft/core/error.hpp>

// Not under MinGW's g++, which keeps AVX vectors on a stack that Windows aligns to 16 bytes only (GCC bug 54412).
#if defined(__x86_64__) && !(defined(__MINGW32__) && !defined(__clang__))
#define WEFT_X86 1
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

// The least level that the compiler options ask of the machine, as a number of isa.
#if defined(WEFT_X86) && defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && defined(__BMI__) && \
    defined(__BMI2__)
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define WEFT_LEAST_ISA 2
#else
#define WEFT_LEAST_ISA 1
#endif
#else
#define WEFT_LEAST_ISA 0
#endif

namespace weft::cpu {

/// Instruction-set levels, each one also able to do what stands before it.
///   avx2: AVX2, FMA, F16C     avx512: AVX-512 F, BW, VL, DQ (Skylake-X)
///   avx512_bf16: with vdpbf16ps     amx: with bf16 tiles, permission asked of the kernel
enum class isa : int { portable, avx2, avx512, avx512_bf16, amx };

constexpr const char* name_of(isa level) {
  switch (level) {
    case isa::portable:
      return "portable";
    case isa::avx2:
      return "avx2";
    case isa::avx512:
      return "avx512";
    case isa::avx512_bf16:
      return "avx512_bf16";
    case isa::amx:
      return "amx";
  }
  return "?";
}

namespace detail {

constexpr isa least_isa = static_cast<isa>(WEFT_LEAST_ISA);

struct isa_found {
  bool has[5] = {least_isa == isa::portable, false, false, false, false};
  isa best = least_isa;
};

#if defined(WEFT_X86)
inline std::uint64_t enabled_states() {
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

/// Asks Linux for the tile registers; without this the first tile instruction ends the process.
inline bool ask_for_tiles() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  return ::syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* tile data */) == 0;
#else
  return false;
#endif
}

WEFT_LINKED isa_found find_isa() {
  isa_found found;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(0, &a, &b, &c, &d)) return found;
  const bool amd = b == 0x68747541u;  // "Auth"enticAMD
  if (!__get_cpuid(1, &a, &b, &c, &d)) return found;
  const bool fma = c >> 12 & 1, xsave = c >> 27 & 1, avx = c >> 28 & 1, f16c = c >> 29 & 1;
  if (!xsave || !avx) return found;
  const std::uint64_t states = enabled_states();
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
  const std::uint32_t leaves = a, b7 = b, d7 = d;
  const bool avx2 = b7 >> 5 & 1;
  if ((states & 0x6) != 0x6 || !avx2 || !fma || !f16c) return found;
  found.has[static_cast<int>(isa::avx2)] = least_isa <= isa::avx2;
  found.best = isa::avx2;
  const std::uint32_t wanted = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
  if ((states & 0xe6) != 0xe6 || (b7 & wanted) != wanted) return found;
  found.has[static_cast<int>(isa::avx512)] = true;
  found.best = isa::avx512;
  bool bf16 = false;
  if (leaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) bf16 = a >> 5 & 1;
  if (!bf16) return found;
  found.has[static_cast<int>(isa::avx512_bf16)] = true;
  if (amd) found.best = isa::avx512_bf16;               // elsewhere vdpbf16ps is slower than widening to float
  const bool tiles = (d7 >> 22 & 1) && (d7 >> 24 & 1);  // AMX-BF16, AMX-TILE
  if (tiles && (states & 0x60000) == 0x60000 && ask_for_tiles()) {
    found.has[static_cast<int>(isa::amx)] = true;
    found.best = isa::amx;
  }
  return found;
}
#else
inline isa_found find_isa() { return {}; }
#endif

[[gnu::noinline]] inline const isa_found& found_isa() {
  static const isa_found found = find_isa();
  return found;
}

/// Throws unless `level` can be used; `asked` names it.
[[gnu::cold]] inline void require_isa(isa level, const char* asked) {
  require(level >= least_isa, asked, name_of(level), " has no kernels here: the program is compiled for ",
          name_of(least_isa), " and above, by -march; compile it without.");
  require(found_isa().has[static_cast<int>(level)], asked, name_of(level), " is not supported here; the best level is ",
          name_of(found_isa().best), ".");
}

[[gnu::cold]] WEFT_LINKED isa first_isa() {
  require(found_isa().has[static_cast<int>(found_isa().best)], "the program is compiled for ", name_of(least_isa),
          " and above, by -march, which this machine is not; compile it without.");
  const char* asked = std::getenv("WEFT_ISA");
  if (asked == nullptr || *asked == 0) return found_isa().best;
  for (int i = 0; i < 5; ++i) {
    const isa level = static_cast<isa>(i);
    if (std::strcmp(asked, name_of(level)) != 0) continue;
    require_isa(level, "WEFT_ISA=");
    return level;
  }
  fail("WEFT_ISA=", asked, " is unknown; use portable, avx2, avx512, avx512_bf16 or amx.");
}

[[gnu::noinline]] inline std::atomic<int>& isa_in_use() {
  static std::atomic<int> level{static_cast<int>(first_isa())};
  return level;
}

}  // namespace detail

/// Whether this machine can run `level`, and the program has kernels for it.
inline bool has_isa(isa level) { return detail::found_isa().has[static_cast<int>(level)]; }

/// The level that kernels use: the fastest one here, or what the environment variable WEFT_ISA or `use_isa` asked for.
/// Throws weft::failure if WEFT_ISA names a level that is unknown or not supported here.
inline isa current_isa() { return static_cast<isa>(detail::isa_in_use().load(std::memory_order_relaxed)); }

/// Makes kernels use `level` from now on (for tests and benchmarks; not while kernels run). Returns the level before.
WEFT_LINKED isa use_isa(isa level) {
  detail::require_isa(level, "The instruction set ");
  return static_cast<isa>(detail::isa_in_use().exchange(static_cast<int>(level)));
}

}  // namespace weft::cpu
