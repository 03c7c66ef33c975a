// A decoder's head as its pass has it: `head(table, h)`, or `head_input(h)`, which has the sequence whole, and
// `logits(table, y)` of that. Invariant: both are the same function of h.
#pragma once

#include <weft/op/convert.hpp>

namespace weft::detail {

template <class Pass, class X>
inline constexpr bool has_head_input = requires(const Pass& pass, const X& x) {
  pass.head_input(x);
};

template <class Pass, class Table, any_tensor X>
auto logits_by(const Pass& pass, const Table& table, const X& x) {
  if constexpr (has_head_input<Pass, X>)
    return pass.logits(table, pass.head_input(x));
  else
    return pass.head(table, x);
}

/// The head's input, promoted over tp before it is cut, so that its gradient's sum over tp is one and not one a piece;
/// as it is where the logits would be placed otherwise.
template <class Pass, class Table, any_tensor Y>
auto promoted_head_input(const Y& y) {
  if constexpr (state_on<layout_of<Y>, tp>.kind == holds::invariant) {
    using promoted = decltype(convert<replicate<tp>>(y));
    using of_y = decltype(std::declval<const Pass&>().logits(std::declval<const Table&>(), y));
    using of_promoted =
        decltype(std::declval<const Pass&>().logits(std::declval<const Table&>(), std::declval<const promoted&>()));
    if constexpr (std::same_as<of_y, of_promoted>)
      return convert<replicate<tp>>(y);
    else
      return y;
  } else {
    return y;
  }
}

}  // namespace weft::detail
