// A formula over rows where its kernels can't take memory of their own, as on a device: rows are brought together and
// widened before them, and put back behind them. Invariant: rows of padding are never met.
#pragma once

#include <span>

#include <weft/op/formula_engine.hpp>
#include <weft/op/formula_says.hpp>

namespace weft::detail {

/// Where dimension `dim` comes last.
inline shape with_last(const shape& in, int dim) {
  shape out;
  for (int d = 0; d < in.ndim; ++d)
    if (d != dim) out.push_back(in[d]);
  out.push_back(in[dim]);
  return out;
}
/// An array's strides in that order.
inline std::array<std::int64_t, max_ndim> strides_with_last(const shape& in, int dim) {
  std::array<std::int64_t, max_ndim> out{};
  int at = 0;
  for (int d = 0; d < in.ndim; ++d)
    if (d != dim) out[static_cast<std::size_t>(at++)] = in.elements(d + 1);
  out[static_cast<std::size_t>(at)] = in.elements(dim + 1);
  return out;
}

/// Arrays of T as rows of the numbers that a formula computes with.
template <class Backend, class T>
struct rows_of_numbers {
  using number = number_for<T>;
  static bool in_place(const shape& in, int dim) { return std::same_as<T, number> && dim + 1 == in.ndim; }

  /// x as [others..., dim].
  static local_array gather(context& ctx, const local_array& x, int dim) {
    local_array rows = x;
    if (dim + 1 < x.shape.ndim) {
      rows = ctx.make(x.type, with_last(x.shape, dim));
      copy(ctx, rows.shape, x, strides_with_last(x.shape, dim), rows,
           strides_with_last(rows.shape, rows.shape.ndim - 1));
    }
    if constexpr (!std::same_as<T, number>) {
      const local_array wide = ctx.make(dtype_of<number>, rows.shape);
      Backend::convert(ctx.queue<Backend>(), rows.elements(), rows.template as<T>(), wide.as<number>(), false);
      return wide;
    }
    return rows;
  }
  /// Rows of zeros for what is to become `to`: itself where it can be.
  static local_array zeros(context& ctx, const local_array& to, int dim) {
    const local_array rows = in_place(to.shape, dim) ? to : ctx.make(dtype_of<number>, with_last(to.shape, dim));
    Backend::zero(ctx.queue<Backend>(), rows);
    return rows;
  }
  /// The way back, into `to`.
  static void scatter(context& ctx, const local_array& rows, const local_array& to, int dim) {
    if (in_place(to.shape, dim)) return;
    local_array narrow = rows;
    if constexpr (!std::same_as<T, number>) {
      narrow = dim + 1 == to.shape.ndim ? to : ctx.make(to.type, rows.shape);
      Backend::convert(ctx.queue<Backend>(), rows.elements(), rows.as<number>(), narrow.template as<T>(), false);
    }
    if (dim + 1 < to.shape.ndim)
      copy(ctx, rows.shape, narrow, strides_with_last(rows.shape, rows.shape.ndim - 1), to,
           strides_with_last(to.shape, dim));
  }

 private:
  using strides = std::array<std::int64_t, max_ndim>;
  static void copy(context& ctx, const shape& extents, const local_array& from, const strides& of_from,
                   const local_array& to, const strides& of_to) {
    Backend::copy(ctx.queue<Backend>(), extents.ndim, extents.extent, from, of_from.data(), to, of_to.data());
  }
};

// The kernels, one call a row; offsets are the row's and the output's.
using row_offsets = std::array<std::int64_t, 2>;

template <class F, class Number, class Out>
struct row_to_number {
  F f;
  const Number* x;
  Out* y;
  std::size_t n;
  WEFT_ON_DEVICE void operator()(const row_offsets& at) const {
    y[at[1]] = static_cast<Out>(f.forward(std::span<const Number>(x + at[0], n)));
  }
};
template <class F, class Number>
struct row_to_row {
  F f;
  const Number* x;
  Number* y;
  std::size_t n;
  WEFT_ON_DEVICE void operator()(const row_offsets& at) const {
    f.forward(std::span<const Number>(x + at[0], n), std::span<Number>(y + at[1], n));
  }
};
/// x and y may be null where the formula doesn't keep them. Reduces: dy and y are numbers, of type Out.
template <class F, class Number, class Out, bool Reduces>
struct row_gradient {
  using given = std::conditional_t<Reduces, Out, Number>;
  F f;
  const Number* x;
  const given* y;
  const given* dy;
  Number* dx;
  std::size_t n;
  WEFT_ON_DEVICE void operator()(const row_offsets& at) const {
    if constexpr (Reduces)
      give(number_from(dy[at[1]]), at, y ? number_from(y[at[1]]) : Number{});
    else
      give(std::span<const Number>(dy + at[1], n), at, std::span<const Number>(y ? y + at[1] : nullptr, y ? n : 0));
  }

 private:
  template <class Given>
  WEFT_ON_DEVICE void give(Given back, const row_offsets& at, Given out) const {
    const std::span<const Number> row(x ? x + at[0] : nullptr, x ? n : 0);
    const std::span<Number> to(dx + at[0], n);
    if constexpr (keeps_input<F>() && keeps_output<F>())
      f.vjp(back, row, out, to);
    else if constexpr (keeps_input<F>())
      f.vjp(back, row, to);
    else if constexpr (keeps_output<F>())
      f.vjp(back, out, to);
    else
      f.vjp(back, to);
  }
};

}  // namespace weft::detail
