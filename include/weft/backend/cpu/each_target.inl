// Includes the file that WEFT_KERNELS names once per target, in namespace weft::cpu::<target>. Included many times: no
// #pragma once. Invariant: leaves no macro and no compiler option behind.
#include <weft/backend/cpu/simd.hpp>

#if defined(WEFT_KERNELS)
#if defined(__clang__) && defined(WEFT_X86)  // whatever of -ffast-math it was given: only g++ says so by macros
#pragma float_control(precise, on, push)
#endif

#if WEFT_LEAST_ISA == 0
#define WEFT_TARGET 0
namespace weft::cpu::portable {
#include WEFT_KERNELS
}  // namespace weft::cpu::portable
#undef WEFT_TARGET
#endif

#if defined(WEFT_X86)
#if WEFT_LEAST_ISA <= 1
#define WEFT_TARGET 1
WEFT_TARGET_BEGIN_avx2 namespace weft::cpu::avx2{
#include WEFT_KERNELS
}  // namespace weft::cpu::avx2
WEFT_TARGET_END
#undef WEFT_TARGET
#endif

#define WEFT_TARGET 2
    WEFT_TARGET_BEGIN_avx512 namespace weft::cpu::avx512{
#include WEFT_KERNELS
    }  // namespace weft::cpu::avx512
WEFT_TARGET_END
#undef WEFT_TARGET
#endif

#if defined(__clang__) && defined(WEFT_X86)
#pragma float_control(pop)
#endif
#undef WEFT_KERNELS
#endif
