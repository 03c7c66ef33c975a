// Tensors as text: what a rank holds of one and how it is placed. Invariant: reads only; nothing moves between ranks.
#pragma once

#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>

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
  return {D::name, x.template local_extent<D>(), shards_of<layout_of<X>, D>(*x.ctx), x.template global_extent<D>()};
}

[[gnu::cold, gnu::noinline]] inline std::string describe(dtype type, std::initializer_list<dimension_text> dimensions,
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

template <class T>
[[gnu::cold, gnu::noinline]] void print(const value& x, const char* name, const std::string& description,
                                        std::int64_t most) {
  const std::int64_t all = x.held().elements(), count = all < most ? all : most;
  std::string line("rank ");
  append(line, x.ctx->rank());
  for (const char* part : {": ", name, " ", description.c_str(), " ="}) line += part;
  for (std::int64_t i = 0; i < count; ++i) {
    char number[32];
    std::snprintf(number, sizeof number, " %.6g", static_cast<double>(x.held().as<T>()[i]));
    line += number;
  }
  if (all > count) line += " ...";
  std::puts(line.c_str());
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

/// Prints a line: the rank, a name, the tensor's description and its first elements on this rank. Host backends only.
template <any_tensor X>
void print(const char* name, const X& x, std::int64_t most = 4) {
  detail::print<typename X::element_type>(x, name, describe(x), most);
}

}  // namespace weft
