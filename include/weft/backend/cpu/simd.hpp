// How kernels are compiled for several instruction sets in one program, without -march.
// Invariant: nothing compiled for a target is reachable except through WEFT_DISPATCH.
//
// A kernel lives in a file `xyz.inl` (no #pragma once, no #include, no namespace, no call to a function of std).
// It is included once per target, each time in its own namespace and compiled for that target:
//
//   #define WEFT_KERNELS <weft/backend/cpu/xyz.inl>
//   #include <weft/backend/cpu/each_target.inl>              // -> weft::cpu::portable, ::avx2, ::avx512, but for
//                                                            //    those below what -march asks for
//   inline void xyz(float* p, std::int64_t n) { WEFT_DISPATCH(xyz_kernel, p, n); }     // in namespace weft::cpu
//
// Inside the file: the names of simd.inl (vec, lanes, load, store, fma ...), and WEFT_TARGET (0 portable, 1 avx2,
// 2 avx512) for #if. Kernels are `inline` functions or templates; helpers are WEFT_INLINE, which inlines at -O0 too.
// Lambdas handed to helpers want `WEFT_INLINE_LAMBDA` after their parameter list. Code of std must not be instantiated
// there: the linker could pick that copy for the whole program, and an old processor would die of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <weft/backend/cpu/isa.hpp>
#include <weft/core/dtype.hpp>

#define WEFT_INLINE __attribute__((always_inline)) inline
#define WEFT_INLINE_LAMBDA __attribute__((always_inline))

#if defined(WEFT_X86) && defined(__clang__)
#define WEFT_DETAIL_PRAGMA(...) _Pragma(#__VA_ARGS__)
#define WEFT_TARGET_BEGIN_avx2 \
  WEFT_DETAIL_PRAGMA(clang attribute push(__attribute__((target("avx2,fma,f16c,bmi,bmi2"))), apply_to = function))
#define WEFT_TARGET_BEGIN_avx512           \
  WEFT_DETAIL_PRAGMA(clang attribute push( \
      __attribute__((target("avx2,fma,f16c,bmi,bmi2,avx512f,avx512bw,avx512vl,avx512dq"))), apply_to = function))
#define WEFT_TARGET_END _Pragma("clang attribute pop")
#elif defined(WEFT_X86)
#define WEFT_TARGET_BEGIN_avx2 _Pragma("GCC push_options") _Pragma("GCC target(\"avx2,fma,f16c,bmi,bmi2\")")
#define WEFT_TARGET_BEGIN_avx512 \
  _Pragma("GCC push_options")    \
      _Pragma("GCC target(\"avx2,fma,f16c,bmi,bmi2,avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512\")")
#define WEFT_TARGET_END _Pragma("GCC pop_options")
#endif

/// `return kernel(arguments...)` in the namespace of the target in use.
#if WEFT_LEAST_ISA == 2
#define WEFT_DISPATCH(kernel, ...)                                        \
  do {                                                                    \
    ::weft::cpu::current_isa(); /* throws where WEFT_ISA asks for less */ \
    return ::weft::cpu::avx512::kernel(__VA_ARGS__);                      \
  } while (false)
#elif WEFT_LEAST_ISA == 1
#define WEFT_DISPATCH(kernel, ...)                                                                               \
  do {                                                                                                           \
    if (::weft::cpu::current_isa() >= ::weft::cpu::isa::avx512) return ::weft::cpu::avx512::kernel(__VA_ARGS__); \
    return ::weft::cpu::avx2::kernel(__VA_ARGS__);                                                               \
  } while (false)
#elif defined(WEFT_X86)
#define WEFT_DISPATCH(kernel, ...)                                                               \
  do {                                                                                           \
    const ::weft::cpu::isa weft_level = ::weft::cpu::current_isa();                              \
    if (weft_level >= ::weft::cpu::isa::avx512) return ::weft::cpu::avx512::kernel(__VA_ARGS__); \
    if (weft_level >= ::weft::cpu::isa::avx2) return ::weft::cpu::avx2::kernel(__VA_ARGS__);     \
    return ::weft::cpu::portable::kernel(__VA_ARGS__);                                           \
  } while (false)
#else
#define WEFT_DISPATCH(kernel, ...) return ::weft::cpu::portable::kernel(__VA_ARGS__)
#endif

#pragma push_macro("WEFT_KERNELS")
#undef WEFT_KERNELS
#define WEFT_KERNELS <weft/backend/cpu/simd.inl>
#include <weft/backend/cpu/each_target.inl>
#pragma pop_macro("WEFT_KERNELS")
