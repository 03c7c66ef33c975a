// Laws of a backend's matrix products: random sizes, leading dimensions, transposes, batches, accumulation, what
// follows them. Invariant: what lies between an operand's elements is NaN, and what lies between the output's keeps its
// value.
#pragma once

#include <weft/testing/backend/elementwise.hpp>

namespace weft::testing {
namespace detail::kernels {

struct draws {
  std::uint32_t state;
  std::uint32_t next() { return (state = state * 1664525u + 1013904223u) >> 8; }
  int64 below(int64 n) { return static_cast<int64>(next() % static_cast<std::uint32_t>(n)); }
  double uniform() { return static_cast<double>(next()) * 0x1p-23 - 1; }
};

/// A product with its traps: odd sizes, gaps between rows, transposes, batches, accumulation.
struct product_case {
  matmul_shape shape;
  strides a, b, c;
  bool accumulate = false;
  bool integers = false;  // small ones: every sum is exact in float, so the output must be right to the last bit

  static strides strides_of(draws& r, int64 rows, int64 columns, int kind) {
    const int64 gap = r.below(2) * r.below(5);
    if (kind == 0) return {columns + gap, 1, rows * (columns + gap) + r.below(3)};
    if (kind == 1) return {1, rows + gap, columns * (rows + gap) + r.below(3)};
    return {2 * columns + gap, 2, rows * (2 * columns + gap)};  // neither is contiguous
  }
  static product_case draw(draws& r) {
    product_case made;
    const int64 limits[] = {4, 20, 70, 140};
    made.shape = {r.below(4) == 0 ? r.below(4) : 1, r.below(limits[r.below(4)]), r.below(limits[r.below(4)]),
                  r.below(limits[r.below(4)])};
    if (r.below(12) == 0) made.shape.m = 1, made.shape.n = 1000 + r.below(200);
    if (r.below(12) == 0) made.shape.k = 800 + r.below(800);
    if (r.below(40) == 0) made.shape = {1, 17, 40, 2000 + r.below(2500)};
    if (r.below(40) == 0) made.shape = {1, 19, 4096 + r.below(70), 9};
    made.a = strides_of(r, made.shape.m, made.shape.k, r.below(8) == 0 ? 2 : static_cast<int>(r.below(2)));
    made.b = strides_of(r, made.shape.k, made.shape.n, r.below(8) == 0 ? 2 : static_cast<int>(r.below(2)));
    if (r.below(4) == 0) made.b.batch = 0;
    made.c = strides_of(r, made.shape.m, made.shape.n, 0);
    made.accumulate = r.below(2) == 1;
    made.integers = r.below(2) == 1;
    return made;
  }
  std::string describe() const {
    const auto text = [](strides s) {
      return " (" + std::to_string(s.row) + ", " + std::to_string(s.column) + ", " + std::to_string(s.batch) + ")";
    };
    return "c of " + std::to_string(shape.batch) + " x " + std::to_string(shape.m) + " x " + std::to_string(shape.n) +
           " over k of " + std::to_string(shape.k) + ", strides a" + text(a) + " b" + text(b) + " c" + text(c) +
           (accumulate ? ", added" : "");
  }
  static int64 extent(strides s, int64 batch, int64 rows, int64 columns) {
    if (batch == 0 || rows == 0 || columns == 0) return 0;
    return (batch - 1) * s.batch + (rows - 1) * s.row + (columns - 1) * s.column + 1;
  }
};

/// f(matrix, row, column, place) over all elements.
template <class F>
void each_element(int64 batch, int64 rows, int64 columns, strides s, F f) {
  for (int64 q = 0; q < batch; ++q)
    for (int64 i = 0; i < rows; ++i)
      for (int64 j = 0; j < columns; ++j) f(q, i, j, at(q * s.batch + i * s.row + j * s.column));
}

template <class T, class Out, class B>
void product_of(bench<B>& bench, const product_case& p, draws& r) {
  const auto& [batch, m, n, k] = p.shape;
  std::vector<T> x(at(p.extent(p.a, batch, m, k)), make<T>(std::nan("")));
  std::vector<T> y(at(p.extent(p.b, batch, k, n)), make<T>(std::nan("")));
  std::vector<Out> z(at(p.extent(p.c, batch, m, n)), make<Out>(77));
  const auto number = [&] { return p.integers ? static_cast<double>(r.below(5) - 2) : r.uniform(); };
  each_element(batch, m, k, p.a, [&](int64, int64, int64, std::size_t i) { x[i] = make<T>(number()); });
  each_element(batch, k, n, p.b, [&](int64, int64, int64, std::size_t i) { y[i] = make<T>(number()); });
  each_element(batch, m, n, p.c, [&](int64, int64, int64, std::size_t i) { z[i] = make<Out>(number()); });
  const doubles wide_x = widened(x), wide_y = widened(y);
  doubles exact = widened(z), size(z.size());
  std::vector<bool> written(z.size());
  each_element(batch, m, n, p.c, [&](int64 q, int64 i, int64 j, std::size_t to) {
    double sum = p.accumulate ? exact[to] : 0, magnitude = std::fabs(sum);
    for (int64 l = 0; l < p.shape.k; ++l) {
      const double term = wide_x[at(q * p.a.batch + i * p.a.row + l * p.a.column)] *
                          wide_y[at(q * p.b.batch + l * p.b.row + j * p.b.column)];
      sum += term, magnitude += std::fabs(term);
    }
    exact[to] = sum, size[to] = magnitude, written[to] = true;
  });
  const buffer<B, T> a(bench, x), b(bench, y);
  const buffer<B, Out> c(bench, z);
  B::matmul(bench.queue(), p.shape, a.in(), p.a, b.in(), p.b, c.out(), p.c, p.accumulate);
  const std::vector<Out> got = c.host();
  // A sum of k products in any order: (k + 1) roundings of the accumulator, each at most half a unit of the sum of
  // magnitudes; then one rounding to Out. (Some units flush subnormals; 1e-30 covers that.)
  const double step = sum_rounding<T> * static_cast<double>(k + 2);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double value = static_cast<double>(got[i]), sums = step * size[i];
    const double rounded = rounding<Out> * (std::fabs(exact[i]) + sums) + (sizeof(Out) == 2 ? 0x1p-25 : 0);
    const bool right = !written[i] || p.integers ? value == static_cast<double>(make<Out>(exact[i]))
                                                 : std::fabs(value - exact[i]) <= sums + rounded + 1e-30;
    if (!right)
      bench.must(false, p.describe(), ": place ", i, written[i] ? "" : ", between the rows of c,", " is ", value,
                 ", not ", exact[i]);
  }
}

/// A product with a bias, and gelu of it: where the backend takes it all is right, else nothing was written.
template <class T, class B>
void product_and_more(bench<B>& bench, product_case p, draws& r, bool has_gelu) {
  p.shape.batch = 1, p.integers = false;
  const int64 m = p.shape.m, n = p.shape.n, k = p.shape.k;
  const auto drawn = [&](strides s, int64 rows, int64 columns) {
    std::vector<T> x(at(p.extent(s, 1, rows, columns)), make<T>(std::nan("")));
    each_element(1, rows, columns, s, [&](int64, int64, int64, std::size_t i) { x[i] = make<T>(r.uniform()); });
    return x;
  };
  const std::vector<T> x = drawn(p.a, m, k), y = drawn(p.b, k, n), bias = drawn({n, 1, 0}, 1, n);
  const std::vector<T> before(at(p.extent(p.c, 1, m, n)), make<T>(77));
  const buffer<B, T> a(bench, x), b(bench, y), of_bias(bench, bias), c(bench, before), h(bench, before);
  const matmul_epilogue after{of_bias.in(), has_gelu ? h.out() : nullptr};
  const bool done = B::matmul(bench.queue(), p.shape, a.in(), p.a, b.in(), p.b, c.out(), p.c, after);
  const std::vector<T> got = c.host(), between = h.host();
  std::vector<bool> written(got.size());
  const auto right = [&](const std::vector<T>& of, std::size_t i, double exact, double sums, const char* what) {
    const double value = static_cast<double>(of[i]);
    const double allowed = 2 * sums + rounding<T> * (std::fabs(exact) + sums) + (sizeof(T) == 2 ? 0x1p-25 : 1e-30);
    if (!(std::fabs(value - exact) <= allowed))
      bench.must(false, p.describe(), ", with a bias", has_gelu ? " and gelu" : "", ": ", what, " at place ", i, " is ",
                 value, ", not ", exact);
  };
  each_element(1, m, n, p.c, [&](int64, int64 i, int64 j, std::size_t to) {
    if (!done) return;
    double sum = static_cast<double>(bias[at(j)]), magnitude = std::fabs(sum);
    for (int64 l = 0; l < k; ++l) {
      const double term = static_cast<double>(x[at(i * p.a.row + l * p.a.column)]) *
                          static_cast<double>(y[at(l * p.b.row + j * p.b.column)]);
      sum += term, magnitude += std::fabs(term);
    }
    written[to] = true;
    const double sums = sum_rounding<T> * static_cast<double>(k + 8) * (magnitude + 1);
    right(got, to, has_gelu ? exact(unary::gelu, sum) : sum, sums, "c");
    if (has_gelu) right(between, to, sum, sums, "what is before gelu");
  });
  for (std::size_t i = 0; i < got.size(); ++i)
    bench.must(written[i] || (static_cast<double>(got[i]) == 77 && static_cast<double>(between[i]) == 77), p.describe(),
               ": place ", i, done ? ", between the rows of c, was written" : " was written, but the call gave false");
}

template <class T, class Out, class B>
void products(bench<B>& b, int rounds) {
  constexpr bool there = matmul_kernel<B, T, Out>;
  if (!b.has(there, sizeof(Out) == sizeof(T) ? "matmul" : "matmul to its sums' type", dtype_of<T>)) return;
  if constexpr (there) {
    draws r{static_cast<std::uint32_t>(sizeof(T) * 8 + sizeof(Out))};
    for (int i = 0; i < rounds; ++i) product_of<T, Out>(b, product_case::draw(r), r);
    if constexpr (epilogue_kernel<B, T> && std::same_as<T, Out>)
      for (int i = 0; i < rounds; ++i) product_and_more<T>(b, product_case::draw(r), r, i % 2 == 1);
  }
}

}  // namespace detail::kernels

/// The law of `matmul` of backend B for element types Ts, into the same type and into that of its sums, on `rounds`
/// random products of each: rows may have gaps, either operand may be transposed or have no contiguous side, matrices
/// of a batch may share the second; and, where B has such a kernel, products with a bias and gelu. Throws weft::failure
/// with the first product that is wrong.
template <class B, class... Ts>
backend_report check_matmul_kernels(int threads = 1, int rounds = 60) {
  return detail::kernels::each_type<B, Ts...>(threads, [rounds]<class T>(auto& b) {
    detail::kernels::products<T, T>(b, rounds);
    if constexpr (sizeof(T) == 2) detail::kernels::products<T, accumulate_t<T>>(b, rounds);
  });
}

}  // namespace weft::testing
