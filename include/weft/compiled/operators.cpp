// Part of weft::compiled: operators and conversions. What they call is in the other parts.
#if !defined(WEFT_COMPILED)
#define WEFT_COMPILED
#endif
#include <weft/compiled/instances.hpp>

namespace weft::detail {
WEFT_DETAIL_OPERATORS(template, double)
WEFT_DETAIL_OPERATORS(template, float)
WEFT_DETAIL_OPERATORS(template, bf16)
WEFT_DETAIL_OPERATORS(template, fp16)
WEFT_DETAIL_CONVERSIONS(template)
}  // namespace weft::detail
