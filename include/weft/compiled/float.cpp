// Part of weft::compiled: what is computed in float, and copies.
#include <weft/backend/cpu/instances.hpp>

namespace weft::cpu {
WEFT_DETAIL_KERNELS(template, float)
WEFT_DETAIL_SUM_KERNELS(template, float)
WEFT_DETAIL_ROUNDED_KERNELS(template, float, float)
WEFT_DETAIL_COPY_KERNELS(template, std::uint8_t)
WEFT_DETAIL_COPY_KERNELS(template, std::uint16_t)
WEFT_DETAIL_COPY_KERNELS(template, std::uint32_t)
WEFT_DETAIL_COPY_KERNELS(template, std::uint64_t)
}  // namespace weft::cpu
