// Tensors as text: what a rank holds of one and how it is placed. Invariant: reads only; nothing moves between ranks.
#pragma once

#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <weft/op/to_host.hpp>
#include <weft/tensor/local_run.hpp>

namespace weft {
namespace detail {

struct dimension_text {
  std::string_view name;
  std::int64_t held = 0;  // elements on this rank
  int parts = 1;          // ranks that share the dimension
  std::int64_t whole = 0;
};

// One placement as text: kind<first, ...>
[[gnu::cold, gnu::noinline]] inline std::string placement_text(std::string_view kind,
                                                               std::initializer_list<std::string_view> names) {
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
std::string text_of(tag_list<shard<D, As...>>) {
  return placement_text("shard", {D::name, As::name...});
}
template <class... As>
std::string text_of(tag_list<replicate<As...>>) {
  return placement_text("replicate", {As::name...});
}
template <class... As>
std::string text_of(tag_list<partial<As...>>) {
  return placement_text("partial", {As::name...});
}
template <class... Ps>
std::string text_of(layout<Ps...>) {
  std::string out;
  ((out += text_of(tag_list<Ps>{})), ...);
  return out;
}

template <any_tensor X, class E>
dimension_text dimension_of(const X& x) {
  using D = tag_of<E>;
  return {D::name, untyped(x).sizes()[dims_of<X>::template index<D>], shards_of<layout_of<X>, D>(*untyped(x).ctx),
          x.template global_extent<D>()};
}

[[gnu::cold]] WEFT_LINKED std::string describe(dtype type, std::initializer_list<dimension_text> dimensions,
                                               const std::string& placements) {
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
  out += dimensions.size() == 0 ? " []" : "]";
  return out += placements;
}

// In words what a rank's numbers are of the value, between the description and the numbers.
template <class... Slices, class... Sums>
std::string share_text(sharded_over<Slices...>, pending_sum_over<Sums...>) {
  if constexpr (sizeof...(Slices) + sizeof...(Sums) == 0) return " =";
  std::string out(", ");
  if constexpr (sizeof...(Slices) > 0) out += "this rank's slice";
  if constexpr (sizeof...(Slices) > 0 && sizeof...(Sums) > 0) out += " of ";
  if constexpr (sizeof...(Sums) > 0) {
    out += "one addend of a sum pending over ";
    const char* before = "";
    ((out += before, out += Sums::name, before = " and "), ...);
  }
  return out += ":";
}

template <class T>
[[gnu::cold, gnu::noinline]] std::string line_of(const context& ctx, const char* name, const std::string& description,
                                                 const std::string& share, const T* numbers, std::int64_t count,
                                                 bool more) {
  std::string line("rank ");
  append(line, ctx.rank().here());
  for (const char* part : {": ", name, " ", description.c_str(), share.c_str()}) line += part;
  for (std::int64_t i = 0; i < count; ++i) {
    char number[32];
    std::snprintf(number, sizeof number, " %.6g", static_cast<double>(numbers[i]));
    line += number;
  }
  if (more) line += " ...";
  return line;
}

}  // namespace detail

/// A tensor's type and local sizes: "fp32 [hidden 8, ffn 8 of 16] shard<ffn, tp>".
template <any_tensor X>
std::string describe(const X& x) {
  return [&]<class... Es>(dims<Es...>) {
    return detail::describe(dtype_of<typename X::element_type>, {detail::dimension_of<X, Es>(x)...},
                            detail::text_of(layout_of<X>{}));
  }(dims_of<X>{});
}

namespace detail {
template <any_tensor X>
std::string line_of(const char* name, const X& x, std::int64_t most) {
  using L = layout_of<X>;
  const std::int64_t all = untyped(x).held().elements(), count = all < most ? all : most;
  std::vector<typename X::element_type> numbers(static_cast<std::size_t>(count));
  download(x, numbers.data(), 0, count);
  return line_of(*untyped(x).ctx, name, describe(x), share_text(sharded_in<L>{}, pending_in<L>{}), numbers.data(),
                 count, all > count);
}
}  // namespace detail

/// Prints a line: the rank, a name, the tensor's description, in words what this rank holds of it, and its first
/// elements: "rank 1: loss fp32 [] partial<dp>, one addend of a sum pending over dp: 0.25". Only after " = " is it the
/// value.
template <any_tensor X>
void print(const char* name, const X& x, std::int64_t most = 4) {
  std::puts(detail::line_of(name, x, most).c_str());
}

// A rank's `<<` would show its share as if it were the tensor, in an order that no rank knows.
template <class Stream, any_tensor X>
requires requires(Stream& to) { to << 'c'; }
Stream& operator<<(Stream& to, const X&) {
  static_assert(sizeof(X) == 0,
                "weft: a tensor isn't streamed: print(name, x) shows it, item(x) is a scalar's number, and "
                "on_host(x) are all of its numbers");
  return to;
}

}  // namespace weft
