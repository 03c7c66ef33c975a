// Contractions of operands that are rounded to 8 bits first, each under one scale. Invariant: a product is of the same
// rounded numbers whether a backend multiplies their codes or, with none of its own for that, the numbers.
#pragma once

#include <weft/core/float8.hpp>
#include <weft/op/contract.hpp>

namespace weft {
namespace detail {

/// y = x, rounded to 8 bits under the scale of its largest magnitude; as what each_row calls. `highest` and `lowest`
/// lie where x does.
template <class T>
struct float8_rounding {
  float8_form form;
  const T* x;
  const accumulate_t<T>*highest, *lowest;
  T* y;

  WEFT_ANYWHERE void operator()(std::int64_t n, const std::array<std::int64_t, 2>& at,
                                const std::array<std::int64_t, 2>& stride) const {
    const auto up = static_cast<float>(*highest), down = -static_cast<float>(*lowest);
    const float scale = float8_scale(form, up > down ? up : down);
    for (std::int64_t i = 0; i < n; ++i)
      y[at[1] + i * stride[1]] =
          static_cast<T>(rounded_to_float8(form, scale, static_cast<float>(x[at[0] + i * stride[0]])));
  }
};

/// Operands of products in 8 bits: gradients in e5m2, all else in e4m3.
struct float8_operands {
  static constexpr float8_form form_of(int which) { return which == 2 ? float8_form::e5m2 : float8_form::e4m3; }

  template <class Contraction, class T, class Out>
  static void run(context& ctx, const contraction_attributes& at, contraction_order o, const T* x, const T* y, Out* z,
                  bool add) {
    using backend = typename Contraction::backend;
    if constexpr (float8_kernel<backend, T, Out>)
      if (by_codes<backend>(ctx, at, o, Contraction::planned(at, o), x, y, z, add)) return;
    const local_array first = rounded<backend>(ctx, at, o.first, x), second = rounded<backend>(ctx, at, o.second, y);
    Contraction::multiply(ctx, at, o, first.template as<T>(), second.template as<T>(), z, add);
  }

 private:
  // One product of the backend's, of arrays without padding, whose numbers would count as its own.
  template <class Backend, class T, class Out>
  static bool by_codes(context& ctx, const contraction_attributes& at, contraction_order o,
                       const contraction_plan& plan, const T* x, const T* y, Out* z, bool add) {
    const planned_product p(plan);
    if (plan.empty || !p.is_one_matrix() || at.valid_part(o.first) != at.shapes[o.first] ||
        at.valid_part(o.second) != at.shapes[o.second])
      return false;
    const float8_form form[2] = {form_of(o.first), form_of(o.second)};
    const bool e = p.exchanged;
    return Backend::float8_matmul(ctx.queue<Backend>(), p.sizes, e ? y : x, p.a, form[e], e ? x : y, p.b, form[!e], z,
                                  p.c, add);
  }
  template <class Backend, class T>
  static local_array rounded(context& ctx, const contraction_attributes& at, int which, const T* x) {
    using A = accumulate_t<T>;
    typename Backend::queue& queue = ctx.queue<Backend>();
    const shape &all = at.shapes[which], valid = at.valid_part(which);
    const local_array from(const_cast<T*>(x), dtype_of<T>, all), to = ctx.make(dtype_of<T>, all);
    std::int64_t strides[max_ndim], packed[max_ndim];
    row_major(all, strides), row_major(valid, packed);
    local_array counted = from;  // what the scale is of
    if (valid != all) {
      counted = ctx.make(dtype_of<T>, valid);
      Backend::copy(queue, all.ndim, valid.extent, from, strides, counted, packed);
    }
    const local_array ends = ctx.make(dtype_of<A>, {1, {2}});
    A* const highest = ends.template as<A>();
    bool every[max_ndim];
    std::fill(every, every + max_ndim, true);
    Backend::template reduce_dims<reduce::max>(queue, valid.ndim, valid.extent, every, counted.template as<const T>(),
                                               highest, false);
    Backend::template reduce_dims<reduce::min>(queue, valid.ndim, valid.extent, every, counted.template as<const T>(),
                                               highest + 1, false);
    Backend::each_row(queue, all.ndim, all.extent, std::array<const std::int64_t*, 2>{strides, strides},
                      float8_rounding<T>{form_of(which), x, highest, highest + 1, to.template as<T>()});
    return to;
  }
};

}  // namespace detail

/// contract<k...>(a, b) of operands in 8 bits: a and b are rounded to e4m3 first, and in the backward the gradient of
/// the output to e5m2, each under one scale, the power of two with which the largest magnitude that a rank holds of it
/// just fits ("tensorwise, dynamic scaling"). So a number keeps 4 significant bits, a gradient 3, and what is below
/// some 2^-18 of the largest one becomes 0 (a gradient: 2^-32); since scales are powers of two, the ranks' own change
/// nothing but that. Sums are in float. Doubles are rounded to float first, and a magnitude within a 16th of the
/// largest that the type has may become infinite. Shape, placement, errors: as contract<k...>(a, b), but that a pending
/// sum is refused. On CUDA a product runs on the tensor cores in 8 bits where the GPU has them (compute capability 8.9
/// and up), it is one matrix whose summed extent and width are multiples of 16, and no padding is in it; else, and on
/// every other backend, the rounded numbers are multiplied. Source: Micikevicius et al. 2022.
template <dimension... Ks, any_tensor A, any_tensor B>
auto contract_float8(const A& a, const B& b, call_site at = call_site::here()) {
  constexpr bool summed = detail::none<pending_in<layout_of<A>>> && detail::none<pending_in<layout_of<B>>>;
  static_assert(summed,
                "weft: contract_float8 rounds what it multiplies, and a pending sum rounded is not the sum of its "
                "addends rounded: all_reduce<axis> it first");
  if constexpr (summed) return detail::contract_as<detail::float8_operands, Ks...>(a, b, at);
}

}  // namespace weft
