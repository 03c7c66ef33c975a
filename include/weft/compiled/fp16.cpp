// Part of weft::compiled: arrays of fp16.
#include <weft/backend/cpu/instances.hpp>

namespace weft::cpu {
WEFT_DETAIL_KERNELS(template, fp16)
WEFT_DETAIL_WIDER_KERNELS(template, fp16)
}  // namespace weft::cpu
