// Part of weft::compiled: arrays of bf16.
#include <weft/backend/cpu/instances.hpp>

namespace weft::cpu {
WEFT_DETAIL_KERNELS(template, bf16)
WEFT_DETAIL_WIDER_KERNELS(template, bf16)
}  // namespace weft::cpu
