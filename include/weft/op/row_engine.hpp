// A formula over rows as an operator on values: the loops over the rows, forward and backward, and what the tape keeps.
// Invariant: a row is whole on its rank, and comes to the formula in one piece; rows of padding are never met.
#pragma once

#include <algorithm>
#include <span>

#include <weft/op/row_kernels.hpp>

namespace weft::detail {

/// Calls vjp with what it is given: (dy, x, y, dx), without x where keeps_input is false, without y where keeps_output
/// is, so that it can't read what wasn't kept. Where there is no such vjp, this isn't one to call either.
template <class F, class Y, class X, class DX>
    auto call_row_vjp(const F& f, Y dy, X x, Y y, DX dx) requires(keeps_input<F>() && keeps_output<F>()) && requires {
  f.vjp(dy, x, y, dx);
}
{ f.vjp(dy, x, y, dx); }
template <class F, class Y, class X, class DX>
    auto call_row_vjp(const F& f, Y dy, X x, Y, DX dx) requires(keeps_input<F>() && !keeps_output<F>()) && requires {
  f.vjp(dy, x, dx);
}
{ f.vjp(dy, x, dx); }
template <class F, class Y, class X, class DX>
    auto call_row_vjp(const F& f, Y dy, X, Y y, DX dx) requires(!keeps_input<F>() && keeps_output<F>()) && requires {
  f.vjp(dy, y, dx);
}
{ f.vjp(dy, y, dx); }
template <class F, class Y, class X, class DX>
    auto call_row_vjp(const F& f, Y dy, X, Y, DX dx) requires(!keeps_input<F>() && !keeps_output<F>()) && requires {
  f.vjp(dy, dx);
}
{ f.vjp(dy, dx); }

/// A row of T in an array as the numbers that a formula computes with: itself where it can be, else a copy in memory
/// of the thread's own, which `Which` tells apart.
template <class T, int Which>
class row_of_numbers {
 public:
  using number = number_for<T>;
  row_of_numbers(T* first, std::int64_t stride, std::int64_t n) : first_(first), stride_(stride), n_(n) {
    if (in_place()) return;
    if (std::ssize(copy()) < n) copy().resize(static_cast<std::size_t>(n));
  }
  std::span<number> to_write() {
    if constexpr (std::same_as<T, number>)
      if (stride_ == 1) return {first_, static_cast<std::size_t>(n_)};
    return {copy().data(), static_cast<std::size_t>(n_)};
  }
  std::span<const number> read() {
    const std::span<number> row = to_write();
    if (!in_place())
      for (std::int64_t i = 0; i < n_; ++i) row[static_cast<std::size_t>(i)] = number_from(first_[i * stride_]);
    return row;
  }
  /// Puts what was written back into the array.
  void written() {
    if (!in_place())
      for (std::int64_t i = 0; i < n_; ++i) first_[i * stride_] = static_cast<T>(copy()[static_cast<std::size_t>(i)]);
  }

 private:
  bool in_place() const { return std::same_as<T, number> && stride_ == 1; }
  static std::vector<number>& copy() {
    static thread_local std::vector<number> numbers;
    return numbers;
  }
  T* first_;
  std::int64_t stride_, n_;
};

/// Reduces: a row becomes one number, of type Out; else a row.
template <class Backend, class F, class In, class Out, bool Reduces, bool Gradient>
struct row_operator {
  using number = number_for<In>;
  struct attributes {
    F formula;
    int dim;
    shape in, valid;
  };

  static value forward(const F& f, const value& x, int dim, const shape& valid) {
    context& ctx = *x.ctx;
    const attributes at{f, dim, x.held().shape, valid};
    give_formula<F>(ctx);
    return operate<Out>(
        {F::name.data(), Gradient ? vjp : nullptr, flops_of<F>() * static_cast<double>(at.in.elements()),
         with_numbers(f, computed_by(dim))},
        x.ctx, kept(at, x.whole), kept(at, at.in), {&x},
        [&](const local_array& y) {
          if constexpr (runs_host_functions<Backend>())
            forward_on_host(ctx, at, x.held(), y);
          else
            forward_of_rows(ctx, at, x.held(), y);
        },
        [&](tape_node& node, const value& y) {
          if constexpr (Gradient) {
            node.set(at);
            if constexpr (keeps_input<F>()) node.save(x);
            if constexpr (keeps_output<F>()) node.save(y.data);
          }
        });
  }

 private:
  static shape kept(const attributes& at, const shape& in) {
    shape out;
    for (int d = 0; d < in.ndim; ++d)
      if (!Reduces || d != at.dim) out.push_back(in[d]);
    return out;
  }
  // Calls body(where a row begins, where its output does) for every row that isn't padding: a kernel, which has all
  // that it reads and writes by value.
  template <class Body>
  static void each(context& ctx, const attributes& at, const Body& body) {
    std::int64_t of_x[max_ndim], of_y[max_ndim], extents[max_ndim], x_strides[max_ndim], y_strides[max_ndim];
    row_major(at.in, of_x);
    row_major(kept(at, at.in), of_y);
    int rows = 0;
    for (int d = 0; d < at.in.ndim; ++d) {
      if (d == at.dim) continue;
      extents[rows] = at.valid[d], x_strides[rows] = of_x[d];
      y_strides[rows] = of_y[Reduces ? rows : d];
      ++rows;
    }
    const std::array<const std::int64_t*, 2> strides{x_strides, y_strides};
    Backend::each_line(ctx.queue<Backend>(), rows, extents, strides, at.in[at.dim],
                       [body](const std::array<std::int64_t, 2>& begin) { body(begin[0], begin[1]); });
  }
  // The same where kernels take no memory.
  using of_in = rows_of_numbers<Backend, In>;
  using of_out = rows_of_numbers<Backend, Out>;
  template <class Body>
  static void each_of_rows(context& ctx, const attributes& at, const Body& body) {
    const shape rows = with_last(at.in, at.dim), valid = with_last(at.valid, at.dim);
    std::int64_t of_x[max_ndim], of_y[max_ndim];
    for (int d = 0; d + 1 < rows.ndim; ++d)
      of_x[d] = rows.elements(d + 1), of_y[d] = Reduces && of_x[d] > 0 ? of_x[d] / rows[rows.ndim - 1] : of_x[d];
    const std::array<const std::int64_t*, 2> strides{of_x, of_y};
    Backend::each_line(ctx.queue<Backend>(), rows.ndim - 1, valid.extent, strides, rows[rows.ndim - 1], body);
  }
  static void forward_of_rows(context& ctx, const attributes& at, const local_array& x, const local_array& y) {
    const local_array from = of_in::gather(ctx, x, at.dim);
    const auto n = static_cast<std::size_t>(at.in[at.dim]);
    if constexpr (Reduces) {
      each_of_rows(ctx, at, row_to_number<F, number, Out>{at.formula, from.as<number>(), y.template as<Out>(), n});
    } else {
      const local_array rows = of_out::zeros(ctx, y, at.dim);
      each_of_rows(ctx, at, row_to_row<F, number>{at.formula, from.as<number>(), rows.as<number>(), n});
      of_out::scatter(ctx, rows, y, at.dim);
    }
  }
  static void vjp_of_rows(context& ctx, tape_node& node, const attributes& at, const local_array& dx) {
    using given = std::conditional_t<Reduces, Out, number>;
    const auto rows_of_output = [&](const local_array& y) {
      if constexpr (Reduces)
        return y;
      else
        return of_out::gather(ctx, y, at.dim);
    };
    local_array x, y;
    if constexpr (keeps_input<F>()) x = of_in::gather(ctx, node.saved(0), at.dim);
    if constexpr (keeps_output<F>()) y = rows_of_output(node.saved(keeps_input<F>() ? 1 : 0));
    const local_array dy = rows_of_output(node.output_gradient()), rows = of_in::zeros(ctx, dx, at.dim);
    each_of_rows(ctx, at,
                 row_gradient<F, number, Out, Reduces>{at.formula, x.as<number>(), y.as<given>(), dy.as<given>(),
                                                       rows.as<number>(), static_cast<std::size_t>(at.in[at.dim])});
    of_in::scatter(ctx, rows, dx, at.dim);
  }

  static void vjp(context& ctx, tape_node& node) {
    if constexpr (Gradient) {
      const auto at = node.template get<attributes>();
      const local_array g = ctx.make(dtype_of<In>, at.in);
      if constexpr (runs_host_functions<Backend>())
        vjp_on_host(ctx, node, at, g);
      else
        vjp_of_rows(ctx, node, at, g);
      contribute<Backend, In>(ctx, node, 0, g);
    }
  }

  static void forward_on_host(context& ctx, const attributes& at, const local_array& x, const local_array& y) {
    In* const from = x.as<In>();
    Out* const to = y.as<Out>();
    const std::int64_t n = at.in[at.dim], stride = at.in.elements(at.dim + 1);
    each(ctx, at, [f = at.formula, from, to, n, stride](std::int64_t row, std::int64_t out) {
      row_of_numbers<In, 0> in(from + row, stride, n);
      if constexpr (Reduces) {
        to[out] = static_cast<Out>(f.forward(in.read()));
      } else {
        row_of_numbers<Out, 1> result(to + out, stride, n);
        const std::span<number> written = result.to_write();
        std::fill(written.begin(), written.end(), number{});
        f.forward(in.read(), written);
        result.written();
      }
    });
  }
  static void vjp_on_host(context& ctx, tape_node& node, const attributes& at, const local_array& g) {
    if constexpr (Gradient) {
      In* const x = keeps_input<F>() ? node.saved(0).template as<In>() : nullptr;
      Out* const y = keeps_output<F>() ? node.saved(keeps_input<F>() ? 1 : 0).template as<Out>() : nullptr;
      Out* const dy = node.output_gradient().template as<Out>();
      const std::int64_t n = at.in[at.dim], stride = at.in.elements(at.dim + 1);
      In* const dx_of = g.template as<In>();
      each(ctx, at, [f = at.formula, x, y, dy, dx_of, n, stride](std::int64_t row, std::int64_t out) {
        row_of_numbers<In, 0> in(x ? x + row : nullptr, stride, x ? n : 0);
        row_of_numbers<In, 2> gradient(dx_of + row, stride, n);
        const std::span<number> dx = gradient.to_write();
        std::fill(dx.begin(), dx.end(), number{});
        if constexpr (Reduces) {
          call_row_vjp(f, number_from(dy[out]), in.read(), y ? number_from(y[out]) : number{}, dx);
        } else {
          row_of_numbers<Out, 1> result(y ? y + out : nullptr, stride, y ? n : 0);
          row_of_numbers<Out, 3> back(dy + out, stride, n);
          call_row_vjp(f, back.read(), in.read(), result.read(), dx);
        }
        gradient.written();
      });
    }
  }
};

}  // namespace weft::detail
