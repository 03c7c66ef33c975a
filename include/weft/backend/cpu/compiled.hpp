// Kernels that are linked: with WEFT_COMPILED a unit compiles none of those that `weft::compiled` holds.
// Invariant: without that macro this is empty, and every kernel is compiled where it is called.
#pragma once

#if defined(WEFT_COMPILED)
#include <weft/backend/cpu/instances.hpp>

namespace weft::cpu {
WEFT_DETAIL_KERNELS(extern template, double)
WEFT_DETAIL_KERNELS(extern template, float)
WEFT_DETAIL_KERNELS(extern template, bf16)
WEFT_DETAIL_KERNELS(extern template, fp16)
WEFT_DETAIL_WIDER_KERNELS(extern template, bf16)
WEFT_DETAIL_WIDER_KERNELS(extern template, fp16)
WEFT_DETAIL_SUM_KERNELS(extern template, double)
WEFT_DETAIL_SUM_KERNELS(extern template, float)
WEFT_DETAIL_ROUNDED_KERNELS(extern template, float, float)
WEFT_DETAIL_COPY_KERNELS(extern template, std::uint8_t)
WEFT_DETAIL_COPY_KERNELS(extern template, std::uint16_t)
WEFT_DETAIL_COPY_KERNELS(extern template, std::uint32_t)
WEFT_DETAIL_COPY_KERNELS(extern template, std::uint64_t)
}  // namespace weft::cpu
#endif
