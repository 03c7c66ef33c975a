// The rows of an array that are not padding, for kernels that add up over rows (norms: the gradients of their weights).
// Invariant: where there is no padding, the arrays themselves; else copies of the rows that count, close together.
#pragma once

#include <weft/op/placed.hpp>

namespace weft::detail {

template <class Backend>
class valid_rows {
 public:
  /// Of arrays [..., width] of this shape, of which `valid` is the part that is not padding; width is whole.
  valid_rows(context& ctx, const shape& all, const shape& valid)
      : ctx_(ctx), all_(all), valid_(valid), padded_(!(all == valid)) {}

  bool padded() const { return padded_; }
  std::int64_t count() const { return valid_.elements(0, valid_.ndim - 1); }
  /// An array of the rows, or of a number a row.
  local_array of(const local_array& x) const {
    if (!padded_) return x;
    const bool number = x.shape.ndim == 1 && all_.ndim != 1;
    const auto cut = [&](shape s) {
      if (number) --s.ndim;
      return s;
    };
    const local_array y = ctx_.make(x.type, cut(valid_), memory::buffers);
    copy_part<Backend>(ctx_, cut(valid_), x.reshaped(cut(all_)), y);
    return y;
  }
  /// The rows back in their places, zeros in the padding.
  local_array back(const local_array& y) const {
    const local_array x = ctx_.make(y.type, all_);
    Backend::zero(ctx_.queue<Backend>(), x);
    copy_part<Backend>(ctx_, valid_, y, x);
    return x;
  }

 private:
  context& ctx_;
  shape all_, valid_;
  bool padded_;
};

}  // namespace weft::detail
