// Laws of a backend's kernels of one element: functions and their derivatives, arithmetic with broadcasting, scaling,
// the gated unit. Invariant: what they are compared with is the C library's, in double.
#pragma once

#include <weft/testing/backend/bench.hpp>

namespace weft::testing {
namespace detail::kernels {

inline double exact(unary f, double x) {
  const double sigmoid = 1 / (1 + std::exp(-x));
  switch (f) {
    case unary::identity:
      return x;
    case unary::negate:
      return -x;
    case unary::exp:
      return std::exp(x);
    case unary::log:
      return std::log(x);
    case unary::sqrt:
      return std::sqrt(x);
    case unary::rsqrt:
      return 1 / std::sqrt(x);
    case unary::reciprocal:
      return 1 / x;
    case unary::square:
      return x * x;
    case unary::abs:
      return std::fabs(x);
    case unary::tanh:
      return std::tanh(x);
    case unary::sigmoid:
      return sigmoid;
    case unary::relu:
      return x > 0 ? x : 0;
    case unary::silu:
      return x * sigmoid;
    case unary::gelu:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case unary::gelu_exact:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  }
  return 0;
}
inline double exact(binary f, double a, double b) {
  switch (f) {
    case binary::add:
      return a + b;
    case binary::subtract:
      return a - b;
    case binary::multiply:
      return a * b;
    case binary::divide:
      return a / b;
    case binary::maximum:
      return a > b ? a : b;
    case binary::minimum:
      return a < b ? a : b;
  }
  return 0;
}

template <unary F, class T, class B>
void function_of_one(bench<B>& b, const char* name) {
  using forward = void (*)(typename B::queue&, int64, const T*, T*);
  using backward = void (*)(typename B::queue&, int64, const T*, const T*, T*, bool);
  constexpr bool there = function_kernels<B, F, T>;
  if (!b.has(there, name, dtype_of<T>)) return;
  if constexpr (there) {
    const forward apply = B::template apply<F, T>;
    const backward apply_backward = B::template apply_backward<F, T>;
    const bool positive = F == unary::log || F == unary::sqrt || F == unary::rsqrt || F == unary::reciprocal;
    for (const int64 n : {1, 15, 20003}) {
      const auto x = numbers<T>(n, 1, positive ? 0.1 : -5, 5), dy = numbers<T>(n, 2);
      doubles y, dx;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double v = static_cast<double>(x[i]), h = 1e-5;
        y.push_back(exact(F, v));
        double slope = (exact(F, v + h) - exact(F, v - h)) / (2 * h);
        if (F == unary::abs || F == unary::relu) slope = v > 0 ? 1 : F == unary::relu ? 0 : -1;
        dx.push_back(slope * static_cast<double>(dy[i]));
      }
      // One rounding to T, and up to 16 in the accumulate type (gelu cancels 1 + tanh near -5: absolute). The
      // difference is good to 1e-9 for |f'''| < 1000 at h = 1e-5 (rsqrt near 0.1: 15/8 * 0.1^-3.5 = 6000).
      const double relative = rounding<T> + 16 * sum_rounding<T>, absolute = 16 * sum_rounding<T>;
      const buffer<B, T> in(b, x), out(b, n), gradient(b, dy);
      apply(b.queue(), n, in.in(), out.out());
      b.near("y = f(x)", out.host(), y, relative, absolute);
      writes_and_adds<T>(b, "dx = f'(x) dy", dx, relative + 1e-6 * (sizeof(T) > 4), 2 * absolute + 1e-6,
                         [&](T* d, bool add) { apply_backward(b.queue(), n, in.in(), gradient.in(), d, add); });
    }
  }
}

template <class T, class B>
void functions_of_two(bench<B>& b) {
  constexpr bool there = binary_kernels<B, T>;
  if (!b.has(there, "apply (binary)", dtype_of<T>)) return;
  if constexpr (there) {
    const double relative = rounding<T> + 2 * sum_rounding<T>;  // exact operands, one operation, one rounding to T
    const int64 extents[] = {3, 5, 7, 33};
    struct layout {
      int64 a[4], b[4];
    };
    const layout layouts[] = {{{1155, 231, 33, 1}, {0, 0, 0, 1}}, {{1155, 231, 33, 1}, {0, 0, 1, 0}},
                              {{0, 0, 0, 0}, {1155, 231, 33, 1}}, {{1155, 231, 33, 1}, {1, 3, 15, 105}},
                              {{33, 0, 0, 1}, {0, 33, 0, 1}},     {{0, 1, 0, 0}, {0, 0, 0, 1}}};
    const auto x = numbers<T>(20003, 7), z = numbers<T>(20003, 8, 0.5, 3);
    const buffer<B, T> one(b, x), two(b, z);
    const T *p = one.in(), *r = two.in();
    const auto first = [&](int64 n) { return std::vector<T>(x.begin(), x.begin() + n); };
    for (int k = 0; k <= static_cast<int>(binary::minimum); ++k) {
      const auto f = static_cast<binary>(k);
      for (const int64 n : {1, 17, 20003}) {
        doubles y;
        for (int64 i = 0; i < n; ++i)
          y.push_back(exact(f, static_cast<double>(x[at(i)]), static_cast<double>(z[at(i)])));
        const buffer<B, T> out(b, n);
        B::apply(b.queue(), f, n, p, r, out.out());
        b.near("y = a f b", out.host(), y, relative, subnormal<T>);
        const buffer<B, T> in_place(b, first(n));
        B::apply(b.queue(), f, n, in_place.in(), r, in_place.out());
        b.near("a = a f b", in_place.host(), y, relative, subnormal<T>);
      }
      for (const layout& l : layouts) {
        doubles y;
        for (int64 i = 0; i < 3465; ++i) {
          const int64 where[] = {i / 1155, i / 231 % 5, i / 33 % 7, i % 33};
          int64 from_a = 0, from_b = 0;
          for (int d = 0; d < 4; ++d) from_a += where[d] * l.a[d], from_b += where[d] * l.b[d];
          y.push_back(exact(f, static_cast<double>(x[at(from_a)]), static_cast<double>(z[at(from_b)])));
        }
        const buffer<B, T> out(b, 3465);
        B::apply(b.queue(), f, 4, extents, p, l.a, r, l.b, out.out());
        b.near("y = a f b, broadcast", out.host(), y, relative, subnormal<T>);
        if (l.a[0] != 1155 || l.a[3] != 1) continue;  // a lies as y does: y may be a
        const buffer<B, T> in_place(b, first(3465));
        B::apply(b.queue(), f, 4, extents, in_place.in(), l.a, r, l.b, in_place.out());
        b.near("a = a f b, broadcast", in_place.host(), y, relative, subnormal<T>);
      }
    }
  }
}

template <class T, class B>
void scaled(bench<B>& b) {
  constexpr bool there = scale_kernel<B, T>;
  if (!b.has(there, "scale", dtype_of<T>)) return;
  if constexpr (there)
    for (const int64 n : {0, 1, 31, 70001}) {
      const auto x = numbers<T>(n, 9);
      doubles y;
      for (const T v : x) y.push_back(0.37 * static_cast<double>(v));
      const buffer<B, T> in(b, x);
      writes_and_adds<T>(b, "y = c x", y, rounding<T> + 2 * sum_rounding<T>, subnormal<T>,
                         [&](T* out, bool add) { B::scale(b.queue(), n, 0.37, in.in(), out, add); });
      // A number in memory, which is read when the kernel runs; NaN there leaves y as it is.
      const buffer<B, double> number(b, doubles{0.37}), none(b, doubles{std::nan("")});
      const auto there_is = kernel_number::in_memory(number.in()), there_is_none = kernel_number::in_memory(none.in());
      writes_and_adds<T>(b, "y = c x, c in memory", y, rounding<T> + 2 * sum_rounding<T>, subnormal<T>,
                         [&](T* out, bool add) { B::scale(b.queue(), n, there_is, in.in(), out, add); });
      const buffer<B, T> out(b, x);
      for (const bool add : {false, true}) {
        B::scale(b.queue(), n, there_is_none, in.in(), out.out(), add);
        B::scale(b.queue(), n, there_is_none.gate(2), in.in(), out.out(), add);
      }
      b.near("y, where c in memory is NaN", out.host(), widened(x), 0, 0);
      B::scale(b.queue(), n, there_is.gate(0), in.in(), out.out(), false);
      b.near("y = 0 x, written where c in memory is a number", out.host(), doubles(x.size()), 0, 0);
    }
}

template <class T, class B>
void gated(bench<B>& b) {
  constexpr bool there = swiglu_kernels<B, T>;
  if (!b.has(there, "swiglu", dtype_of<T>)) return;
  if constexpr (there)
    for (const int64 n : {1, 33, 20011}) {
      const auto gate = numbers<T>(n, 1, -10, 10), up = numbers<T>(n, 2), dy = numbers<T>(n, 3);
      const auto unit = [](double g, double u) { return g / (1 + std::exp(-g)) * u; };
      doubles y, dgate, dup;
      for (int64 i = 0; i < n; ++i) {
        const double g = static_cast<double>(gate[at(i)]), u = static_cast<double>(up[at(i)]), h = 1e-5;
        const double d = static_cast<double>(dy[at(i)]);
        y.push_back(unit(g, u));
        dgate.push_back(d * (unit(g + h, u) - unit(g - h, u)) / (2 * h));
        dup.push_back(d * unit(g, 1));
      }
      // About ten roundings in the accumulate type; the difference is good to 1e-9 of values up to 20.
      const double relative = rounding<T> + 10 * sum_rounding<T>, absolute = 10 * sum_rounding<T>;
      const buffer<B, T> g(b, gate), u(b, up), d(b, dy), out(b, n), rest(b, n);
      const T *pg = g.in(), *pu = u.in(), *pd = d.in();
      B::swiglu(b.queue(), n, pg, pu, out.out());
      b.near("y = silu(gate) up", out.host(), y, relative, absolute);
      writes_and_adds<T>(b, "dgate", dgate, relative, 16 * absolute + 1e-8, [&](T* to, bool add) {
        B::swiglu_backward(b.queue(), n, pg, pu, pd, to, add, rest.out(), false);
      });
      writes_and_adds<T>(b, "dup", dup, relative, 2 * absolute, [&](T* to, bool add) {
        B::swiglu_backward(b.queue(), n, pg, pu, pd, rest.out(), false, to, add);
      });
    }
}

}  // namespace detail::kernels

/// The laws of `apply` and `apply_backward` (of one value), `apply` (of two, broadcast), `scale`, `swiglu` and
/// `swiglu_backward` of backend B, for element types Ts. Throws weft::failure with the first kernel that is wrong.
template <class B, class... Ts>
backend_report check_elementwise_kernels(int threads = 1) {
  return detail::kernels::each_type<B, Ts...>(threads, []<class T>(auto& b) {
    using namespace detail::kernels;
    function_of_one<unary::identity, T>(b, "identity"), function_of_one<unary::negate, T>(b, "negate");
    function_of_one<unary::exp, T>(b, "exp"), function_of_one<unary::log, T>(b, "log");
    function_of_one<unary::sqrt, T>(b, "sqrt"), function_of_one<unary::rsqrt, T>(b, "rsqrt");
    function_of_one<unary::reciprocal, T>(b, "reciprocal"), function_of_one<unary::square, T>(b, "square");
    function_of_one<unary::abs, T>(b, "abs"), function_of_one<unary::tanh, T>(b, "tanh");
    function_of_one<unary::sigmoid, T>(b, "sigmoid"), function_of_one<unary::relu, T>(b, "relu");
    function_of_one<unary::silu, T>(b, "silu"), function_of_one<unary::gelu, T>(b, "gelu");
    function_of_one<unary::gelu_exact, T>(b, "gelu_exact");
    functions_of_two<T>(b), scaled<T>(b), gated<T>(b);
  });
}

}  // namespace weft::testing
