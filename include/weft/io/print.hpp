// Tensors as text: what a rank holds of one and how it is placed. Invariant: reads only; nothing moves between ranks.
#pragma once

#include <cstdio>
#include <string>

#include <weft/comm/context.hpp>

namespace weft {
namespace detail {

template <class P> struct placement_text;
template <class... As>
inline std::string axes_text(list<As...>) {
  std::string out;
  ((out += (out.empty() ? "" : ", ") + std::string(As::name)), ...);
  return out;
}
template <class D, class... As> struct placement_text<shard<D, As...>> {
  static std::string get() { return "shard<" + std::string(D::name) + ", " + axes_text(list<As...>{}) + ">"; }
};
template <class... As> struct placement_text<replicate<As...>> {
  static std::string get() { return "replicate<" + axes_text(list<As...>{}) + ">"; }
};
template <class... As> struct placement_text<partial<As...>> {
  static std::string get() { return "partial<" + axes_text(list<As...>{}) + ">"; }
};

}  // namespace detail

/// A tensor's type and local sizes: "fp32 [hidden 8, ffn 8 of 16] shard<ffn, tp>".
template <any_tensor X>
std::string describe(const X& x) {
  std::string out = std::string(name_of(dtype_of<typename X::element_type>)) + " [";
  [&]<class... Es>(dims<Es...>) {
    [[maybe_unused]] std::string_view comma = "";
    (([&] {
       using D = tag_of<Es>;
       const std::int64_t n = x.template local_extent<D>();
       const int parts = shards_of<layout_of<X>, D>(*x.rank);
       out += std::string(comma) + std::string(D::name) + " " + std::to_string(n) + (parts > 1 ? " of " + std::to_string(n * parts) : "");
       comma = ", ";
     }()),
     ...);
  }(dims_of<X>{});
  out += "]";
  [&]<class... Ps>(layout<Ps...>) { ((out += " " + detail::placement_text<Ps>::get()), ...); }(layout_of<X>{});
  return out;
}

/// Prints a line: the rank, a name, the tensor's description and its first elements on this rank. Host backends only.
template <any_tensor X>
void print(const char* name, const X& x, std::int64_t most = 4) {
  std::string line = "rank " + std::to_string(x.rank->rank()) + ": " + name + " " + describe(x) + " =";
  const std::int64_t n = x.local_elements();
  for (std::int64_t i = 0; i < n && i < most; ++i) {
    char number[32];
    std::snprintf(number, sizeof number, " %.6g", static_cast<double>(x.local_data()[i]));
    line += number;
  }
  std::puts((line + (n > most ? " ..." : "")).c_str());
}

}  // namespace weft
