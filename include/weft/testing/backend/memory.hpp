// Laws of a backend's memory: bytes up, down and across, zeros, fills, strided copies, and other element types.
// Invariant: compared bit for bit, but for the rounding of a conversion.
#pragma once

#include <algorithm>

#include <weft/testing/backend/bench.hpp>

namespace weft::testing {
namespace detail::kernels {

struct strided_copy {
  std::vector<int64> extents, from, to;
  int64 from_size, to_size;
};

/// Axes in another order: `order[d]` of the input is d of the output.
inline strided_copy permuted(const std::vector<int64>& extents, const std::vector<std::size_t>& order) {
  strided_copy l{extents, std::vector<int64>(extents.size()), std::vector<int64>(extents.size()), 1, 1};
  for (std::size_t d = extents.size(); d-- > 0;) l.from[d] = l.from_size, l.from_size *= extents[d];
  for (std::size_t d = extents.size(); d-- > 0;) l.to[order[d]] = l.to_size, l.to_size *= extents[order[d]];
  return l;
}

template <class T, class B>
void copies(bench<B>& b, const strided_copy& l) {
  const auto x = numbers<T>(l.from_size, 1), old = numbers<T>(l.to_size, 2);
  std::vector<T> want = old;
  int64 size = 1;
  for (const int64 e : l.extents) size *= e;
  for (int64 i = 0; i < size; ++i) {
    int64 rest = i, from = 0, to = 0;
    for (std::size_t d = l.extents.size(); d-- > 0;) {
      from += rest % l.extents[d] * l.from[d], to += rest % l.extents[d] * l.to[d];
      rest /= l.extents[d];
    }
    want[at(to)] = x[at(from)];
  }
  const buffer<B, T> in(b, x), out(b, old);
  B::copy(b.queue(), static_cast<int>(l.extents.size()), l.extents.data(), in.as_array(), l.from.data(), out.as_array(),
          l.to.data());
  b.near("to = from by strides", out.host(), widened(want), 0, 0);
}

template <class T, class B>
void memory_of_type(bench<B>& b) {
  for (const int64 n : {0, 1, 31, 5003}) {
    const auto x = numbers<T>(n, 3);
    b.has(true, "upload and download", dtype_of<T>);
    const buffer<B, T> in(b, x), out(b, n), filled(b, n);
    b.near("there and back", in.host(), widened(x), 0, 0);
    b.has(true, "copy_bytes", dtype_of<T>);
    B::copy_bytes(b.queue(), in.in(), out.out(), n * int64{sizeof(T)});
    b.near("to = from", out.host(), widened(x), 0, 0);
    b.has(true, "zero", dtype_of<T>);
    B::zero(b.queue(), out.as_array());
    b.near("zeros", out.host(), doubles(at(n)), 0, 0);
    b.has(true, "fill", dtype_of<T>);
    B::fill(b.queue(), filled.as_array(), -1.5);
    b.near("numbers", filled.host(), doubles(at(n), -1.5), 0, 0);
  }
  b.has(true, "copy", dtype_of<T>);
  std::vector<std::size_t> order = {0, 1, 2, 3};
  do {
    copies<T>(b, permuted({3, 17, 2, 33}, order));
    copies<T>(b, permuted({2, 16, 1, 64}, order));
  } while (std::next_permutation(order.begin(), order.end()));
  copies<T>(b, permuted({300, 200}, {1, 0}));
  copies<T>(b, {{5, 7}, {20, 1}, {7, 1}, 100, 35});           // a slice of columns
  copies<T>(b, {{5, 7}, {7, 1}, {20, 1}, 35, 100});           // into a wider array, whose rest stays
  copies<T>(b, {{5, 7, 9}, {0, 9, 1}, {63, 9, 1}, 63, 315});  // repeated
  copies<T>(b, {{5, 7}, {2, 10}, {3, 15}, 75, 150});          // neither side contiguous
  copies<T>(b, {{}, {}, {}, 1, 1});
  copies<T>(b, {{0, 4}, {4, 1}, {4, 1}, 1, 1});
  copies<T>(b, permuted({2, 3, 2, 5, 2, 3, 2, 2}, {7, 6, 5, 4, 3, 2, 1, 0}));
}

template <class To, class From, class B>
void conversion(bench<B>& b) {
  if constexpr (conversion_kernel<B, To, From>) {
    b.has(true, ("convert from " + std::string(name_of(dtype_of<From>))).c_str(), dtype_of<To>);
    const auto x = numbers<From>(1003, 11, -40, 40);
    const buffer<B, From> in(b, x);
    // A double goes to 16 bits by way of float, so twice the least.
    writes_and_adds<To>(b, "to = from", widened(x), rounding<To> + 2 * sum_rounding<To>, 64 * sum_rounding<To>,
                        [&](To* y, bool add) { B::convert(b.queue(), 1003, in.in(), y, add); });
  } else {
    b.has(false, ("convert from " + std::string(name_of(dtype_of<From>))).c_str(), dtype_of<To>);
  }
}

}  // namespace detail::kernels

/// The laws of `open`, `upload`, `download`, `copy_bytes`, `zero`, `fill`, `copy` and `convert` of backend B, for
/// element types Ts. All but `convert` have to be there. Throws weft::failure with the first kernel that is wrong.
template <class B, class... Ts>
backend_report check_memory_kernels(int threads = 1) {
  return detail::kernels::each_type<B, Ts...>(threads, []<class T>(auto& b) {
    detail::kernels::memory_of_type<T>(b);
    (detail::kernels::conversion<T, Ts>(b), ...);
  });
}

}  // namespace weft::testing
