// The law of a backend's products in 8 bits: random sizes, layouts and magnitudes. Invariant: what is expected is
// computed by doubles from operands that core/float8.hpp rounded.
#pragma once

#include <weft/core/float8.hpp>
#include <weft/testing/backend/products.hpp>

namespace weft::testing {
namespace detail::kernels {

/// A matrix's elements as they lie, drawn about some power of two, with NaN between them; and as products take them.
template <class T>
struct float8_operand {
  std::vector<T> given;
  doubles rounded;

  float8_operand(draws& r, float8_form form, strides s, int64 rows, int64 columns)
      : given(at(product_case::extent(s, 1, rows, columns)), make<T>(std::nan(""))), rounded(given.size()) {
    const double unit = std::ldexp(1.0, static_cast<int>(r.below(12)) - 9);
    float largest = 0;
    each_element(1, rows, columns, s, [&](int64, int64, int64, std::size_t i) {
      given[i] = make<T>(unit * r.uniform());
      largest = std::fmax(largest, std::fabs(static_cast<float>(given[i])));
    });
    const float scale = weft::detail::float8_scale(form, largest);
    each_element(1, rows, columns, s, [&](int64, int64, int64, std::size_t i) {
      rounded[i] = weft::detail::rounded_to_float8(form, scale, static_cast<float>(given[i]));
    });
  }
};

/// One product: right where the backend takes it, and nothing written where it doesn't. Whether it did.
template <class T, class Out, class B>
bool float8_product(bench<B>& bench, product_case p, draws& r) {
  p.shape.batch = 1;
  if (r.below(4) != 0)  // what tensor cores take
    for (int64* const n : {&p.shape.m, &p.shape.n, &p.shape.k}) *n = (*n + 15) / 16 * 16;
  const int64 m = p.shape.m, n = p.shape.n, k = p.shape.k;
  p.a = product_case::strides_of(r, m, k, static_cast<int>(r.below(2)));
  p.b = product_case::strides_of(r, k, n, static_cast<int>(r.below(2)));
  p.c = {n, 1, 0};
  const float8_form of_a = r.below(3) == 0 ? float8_form::e5m2 : float8_form::e4m3,
                    of_b = of_a == float8_form::e4m3 && r.below(3) == 0 ? float8_form::e5m2 : float8_form::e4m3;
  const float8_operand<T> x(r, of_a, p.a, m, k), y(r, of_b, p.b, k, n);
  std::vector<Out> z(at(m * n));
  for (Out& v : z) v = make<Out>(r.uniform());
  const buffer<B, T> a(bench, x.given), b(bench, y.given);
  const buffer<B, Out> c(bench, z);
  const bool done =
      B::float8_matmul(bench.queue(), p.shape, a.in(), p.a, of_a, b.in(), p.b, of_b, c.out(), p.c, p.accumulate);
  const std::vector<Out> got = c.host();
  each_element(1, m, n, p.c, [&](int64, int64 i, int64 j, std::size_t to) {
    const double old = static_cast<double>(z[to]), value = static_cast<double>(got[to]);
    if (!done) return bench.must(value == old, p.describe(), ": it wrote, but the call gave false");
    double sum = p.accumulate ? old : 0, size = std::fabs(sum);
    for (int64 l = 0; l < k; ++l) {
      const double term = x.rounded[at(i * p.a.row + l * p.a.column)] * y.rounded[at(l * p.b.row + j * p.b.column)];
      sum += term, size += std::fabs(term);
    }
    // Tensor cores keep 13 bits or so below the largest of some addends.
    const double allowed = 0x1p-12 * size + rounding<Out> * std::fabs(sum) + subnormal<Out>;
    bench.must(std::fabs(value - sum) <= allowed, p.describe(), ", in 8 bits: ", value, " at place ", to, ", not ",
               sum);
  });
  return done;
}

template <class T, class Out, class B>
void float8_products(bench<B>& b, int rounds) {
  if constexpr (float8_kernel<B, T, Out>) {
    b.has(true, sizeof(Out) == sizeof(T) ? "float8_matmul" : "float8_matmul to its sums' type", dtype_of<T>);
    draws r{static_cast<std::uint32_t>(sizeof(T) * 8 + sizeof(Out))};
    for (int i = 0; i < rounds; ++i) float8_product<T, Out>(b, product_case::draw(r), r);
  }
}

}  // namespace detail::kernels

/// The law of `float8_matmul` of backend B, where it has one, for element types Ts, into the same type and into that of
/// its sums: `rounds` random matrices of each, either of which may be transposed and have gaps between its rows. What
/// the backend leaves must not be touched. Throws weft::failure with the first product that is wrong.
template <class B, class... Ts>
backend_report check_float8_kernels(int threads = 1, int rounds = 40) {
  return detail::kernels::each_type<B, Ts...>(threads, [rounds]<class T>(auto& b) {
    detail::kernels::float8_products<T, T>(b, rounds);
    if constexpr (sizeof(T) == 2) detail::kernels::float8_products<T, accumulate_t<T>>(b, rounds);
  });
}

}  // namespace weft::testing
