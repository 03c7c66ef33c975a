// What of it is linked: with WEFT_COMPILED a unit that includes this, as weft.hpp does, compiles none of it.
// Invariant: without that macro, and under nvcc, this is empty, and everything is compiled where it is called.
#pragma once

#if defined(WEFT_COMPILED) && !defined(__CUDACC__)
#include <weft/compiled/instances.hpp>

namespace weft::detail {
WEFT_DETAIL_OPERATORS(extern template, double)
WEFT_DETAIL_OPERATORS(extern template, float)
WEFT_DETAIL_OPERATORS(extern template, bf16)
WEFT_DETAIL_OPERATORS(extern template, fp16)
WEFT_DETAIL_CONVERSIONS(extern template)
}  // namespace weft::detail
#endif
