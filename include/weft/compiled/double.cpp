// Part of weft::compiled: what is computed in double.
#include <weft/backend/cpu/instances.hpp>

namespace weft::cpu {
WEFT_DETAIL_KERNELS(template, double)
WEFT_DETAIL_SUM_KERNELS(template, double)
}  // namespace weft::cpu
