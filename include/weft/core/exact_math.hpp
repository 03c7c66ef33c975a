// Whether arithmetic here is as it is written. Options that make it another are refused by core/requirements.hpp;
// `#pragma GCC optimize` before the include leaves no macro to tell it by, so it is computed.
// Invariant: compiled as all of the library is, under whatever pragma came before.
#pragma once

#include <weft/core/error.hpp>

namespace weft::detail {

[[gnu::noinline]] inline bool arithmetic_is_exact() {
  volatile float large = 1e8f, small = 1, none = __builtin_nanf("");
  const float a = large, b = small, c = none;
  return (a + b) - a == 0 && c != c;
}

/// Throws where additions are reordered, or NaN is taken not to be.
inline void require_exact_math() {
  static const bool exact = arithmetic_is_exact();
  require(exact,
          "arithmetic is not as it is written, so kernels would compute other numbers: leave out #pragma GCC "
          "optimize(\"Ofast\" or \"fast-math\") before <weft/weft.hpp>");
}

}  // namespace weft::detail
