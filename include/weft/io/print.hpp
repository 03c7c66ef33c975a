// Tensors as text: what a rank holds of one and how it is placed. Invariant: reads only; nothing moves between ranks.
#pragma once

#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <weft/comm/context.hpp>

namespace weft {
namespace detail {

struct dimension_text {
  std::string_view name;
  std::int64_t held = 0;  // elements on this rank
  int parts = 1;          // ranks that share the dimension
  std::int64_t whole = 0;
};

// One placement as text: kind<first, ...>
[[gnu::cold, gnu::noinline]] inline std::string placement_text(std::string_view kind, std::initializer_list<std::string_view> names) {
  std::string out(" ");
  out += kind;
  const char* before = "<";
  for (const std::string_view name : names) {
    out += before;
    out += name;
    before = ", ";
  }
  return out += ">";
}
template <class D, class... As>
std::string text_of(list<shard<D, As...>>) {
  return placement_text("shard", {D::name, As::name...});
}
template <class... As>
std::string text_of(list<replicate<As...>>) {
  return placement_text("replicate", {As::name...});
}
template <class... As>
std::string text_of(list<partial<As...>>) {
  return placement_text("partial", {As::name...});
}
template <class... Ps>
std::string text_of(layout<Ps...>) {
  std::string out;
  ((out += text_of(list<Ps>{})), ...);
  return out;
}

template <any_tensor X, class E>
dimension_text dimension_of(const X& x) {
  using D = tag_of<E>;
  const std::int64_t held = x.template local_extent<D>();
  return {D::name, held, shards_of<layout_of<X>, D>(*x.rank), global_extent<layout_of<X>, D>(*x.rank, held)};
}
template <any_tensor X, class... Es>
std::vector<dimension_text> dimensions_of(const X& x, dims<Es...>) {
  return {dimension_of<X, Es>(x)...};
}

[[gnu::cold, gnu::noinline]] inline std::string describe(dtype type, const std::vector<dimension_text>& dimensions, const std::string& placements) {
  std::string out(name_of(type));
  const char* before = " [";
  for (const dimension_text& d : dimensions) {
    out += before;
    out += d.name;
    out += ' ';
    append(out, d.held);
    if (d.parts > 1) out += " of ", append(out, d.whole);
    before = ", ";
  }
  out += dimensions.empty() ? " []" : "]";
  return out += placements;
}

[[gnu::cold, gnu::noinline]] inline void print(int rank, const char* name, const std::string& description, const double* numbers, std::int64_t count, bool more) {
  std::string line("rank ");
  append(line, rank);
  for (const char* part : {": ", name, " ", description.c_str(), " ="}) line += part;
  for (std::int64_t i = 0; i < count; ++i) {
    char number[32];
    std::snprintf(number, sizeof number, " %.6g", numbers[i]);
    line += number;
  }
  if (more) line += " ...";
  std::puts(line.c_str());
}

}  // namespace detail

/// A tensor's type and local sizes: "fp32 [hidden 8, ffn 8 of 16] shard<ffn, tp>".
template <any_tensor X>
std::string describe(const X& x) {
  return detail::describe(dtype_of<typename X::element_type>, detail::dimensions_of(x, dims_of<X>{}), detail::text_of(layout_of<X>{}));
}

/// Prints a line: the rank, a name, the tensor's description and its first elements on this rank. Host backends only.
template <any_tensor X>
void print(const char* name, const X& x, std::int64_t most = 4) {
  const std::int64_t all = x.local_elements(), count = all < most ? all : most;
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<double>(x.local_data()[i]));
  detail::print(x.rank->rank(), name, describe(x), numbers.data(), count, all > count);
}

}  // namespace weft
