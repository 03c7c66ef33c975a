// A backend that has nothing of the library's: a queue, memory, and the kernels of products, sums and tanh as plain
// loops. Operators that need no others run on it. Invariant: an element's sum is added up in one order, by one thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <weft/backend/kernels.hpp>

namespace weft_test {

struct plain_backend {
  struct queue {  // what it is given has run when the call returns
    static constexpr bool runs_behind = false;
    void enqueue(auto f) { f(); }
    void synchronize() {}
  };
  using n64 = std::int64_t;
  static constexpr bool host_memory = false;  // as if it couldn't be read in place
  static std::shared_ptr<queue> open(int, int, int) { return std::make_shared<queue>(); }
  static weft::memory_source memory() { return {std::malloc, std::free}; }

  static void copy_bytes(queue&, const void* from, void* to, n64 n) { std::memmove(to, from, std::size_t(n)); }
  static void upload(queue& q, const void* host, void* to, n64 n) { copy_bytes(q, host, to, n); }
  static void download(queue& q, const void* from, void* host, n64 n) { copy_bytes(q, from, host, n); }
  static void zero(queue& q, const weft::local_array& y) { fill(q, y, 0); }
  static void fill(queue&, const weft::local_array& y, double c) {
    weft::visit_dtype(y.type, [&]<class T>() { std::fill_n(y.as<T>(), y.elements(), static_cast<T>(c)); });
  }
  static void copy(queue&, int ndim, const n64* e, const weft::local_array& x, const n64* sx,
                   const weft::local_array& y, const n64* sy) {
    weft::visit_dtype(
        y.type, [&]<class T>() { each(ndim, e, sx, sy, [&](n64, n64 i, n64 j) { y.as<T>()[j] = x.as<T>()[i]; }); });
  }
  template <class From, class To>
  static void convert(queue&, n64 n, const From* x, To* y, bool add) {
    for (n64 i = 0; i < n; ++i) y[i] = static_cast<To>((add ? double(y[i]) : 0) + double(x[i]));
  }
  template <class T>
  static void scale(queue&, n64 n, const weft::kernel_number& c, const T* x, T* y, bool add) {
    for (n64 i = 0; c.writes() && i < n; ++i) y[i] = static_cast<T>(c.value() * x[i] + (add ? y[i] : 0));
  }
  template <weft::unary F, class T>
  requires(F == weft::unary::tanh) static void apply(queue&, n64 n, const T* x, T* y) {
    std::transform(x, x + n, y, [](T v) { return std::tanh(v); });
  }
  template <weft::unary F, class T>
  static void apply_backward(queue&, n64 n, const T* x, const T* dy, T* dx, bool add) {
    for (n64 i = 0; i < n; ++i) dx[i] = (add ? dx[i] : 0) + dy[i] * (1 - std::tanh(x[i]) * std::tanh(x[i]));
  }
  template <class T>
  static void apply(queue& q, weft::binary f, n64 n, const T* a, const T* b, T* y) {
    const n64 one = 1;
    apply(q, f, 1, &n, a, &one, b, &one, y);
  }
  template <class T>
  static void apply(queue&, weft::binary f, int ndim, const n64* e, const T* a, const n64* sa, const T* b,
                    const n64* sb, T* y) {
    weft::require(f == weft::binary::add || f == weft::binary::multiply, "plain_backend adds and multiplies only");
    each(ndim, e, sa, sb, [=](n64 n, n64 i, n64 j) { y[n] = f == weft::binary::add ? a[i] + b[j] : a[i] * b[j]; });
  }
  template <class T, class Out>
  static void matmul(queue&, const weft::matmul_shape& s, const T* a, const weft::strides& sa, const T* b,
                     const weft::strides& sb, Out* c, const weft::strides& sc, bool add) {
    const n64 extents[] = {s.batch, s.m, s.n}, of_a[] = {sa.batch, sa.row, 0}, of_b[] = {sb.batch, 0, sb.column};
    each(3, extents, of_a, of_b, [=](n64 n, n64 i, n64 j) {
      Out& to = c[n / s.n / s.m * sc.batch + n / s.n % s.m * sc.row + n % s.n];
      double sum = add ? double(to) : 0;
      for (n64 k = 0; k < s.k; ++k) sum += double(a[i + k * sa.column]) * double(b[j + k * sb.row]);
      to = static_cast<Out>(sum);
    });
  }
  template <weft::reduce Kind, class T, class Out>
  requires(Kind == weft::reduce::sum) static void reduce_dims(queue&, int ndim, const n64* e, const bool* reduced,
                                                              const T* x, Out* y, bool add) {
    if (!add) repeated(ndim, e, reduced, [=](n64, n64 i) { y[i] = 0; });
    repeated(ndim, e, reduced, [=](n64 n, n64 i) { y[i] += x[n]; });
  }
  template <class T>
  static void repeat(queue&, int ndim, const n64* e, const bool* reduced, const T* y, T* x, bool add) {
    repeated(ndim, e, reduced, [=](n64 n, n64 i) { x[n] = y[i] + (add ? x[n] : 0); });
  }

 private:
  // f(n, i, j) for all elements: n of a row-major array, i and j of arrays with these strides.
  static void each(int ndim, const n64* e, const n64* si, const n64* sj, auto f, n64 n = 0, n64 i = 0, n64 j = 0) {
    if (ndim == 0) return f(n, i, j);
    for (n64 at = 0; at < *e; ++at) each(ndim - 1, e + 1, si + 1, sj + 1, f, n * *e + at, i + at * *si, j + at * *sj);
  }
  // f(n, i): i of an array without the dimensions that are reduced.
  static void repeated(int ndim, const n64* e, const bool* reduced, auto f, n64 n = 0, n64 i = 0) {
    if (ndim == 0) return f(n, i);
    for (n64 at = 0; at < *e; ++at) repeated(ndim - 1, e + 1, reduced + 1, f, n * *e + at, *reduced ? i : i * *e + at);
  }
};

}  // namespace weft_test
