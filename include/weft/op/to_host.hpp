// From tensors to numbers. A value is read by item and on_host, which refuse what one rank doesn't have; a rank's share
// is read by names that say share. Invariant: nothing moves between ranks, and no share is given out as the value.
#pragma once

#include <vector>

#include <weft/backend/default.hpp>
#include <weft/core/refusal.hpp>
#include <weft/tensor/consistency.hpp>

namespace weft {
namespace detail {

template <any_tensor X>
void download(const X& x, typename X::element_type* to, std::int64_t first, std::int64_t count) {
  using T = typename X::element_type;
  X::backend::download(untyped(x).ctx->template queue<typename X::backend>(),
                       untyped(x).held().template as<T>() + first, to, count * static_cast<std::int64_t>(sizeof(T)));
}

/// The number of a scalar as this rank holds it: an addend, where its sum is pending.
template <any_tensor X>
typename X::element_type local_item(const X& x) {
  static_assert(dims_of<X>::ndim == 0);
  typename X::element_type number{};
  download(x, &number, 0, 1);
  return number;
}

/// Whole values that the program reads, and may decide by, are compared later, if at all.
template <any_tensor X>
void note_read(const X& x, const char* operation, const typename X::element_type* numbers, std::int64_t count,
               call_site at) {
  if (!untyped(x).ctx->check) [[likely]]
    return;
  const auto bytes = static_cast<std::size_t>(count) * sizeof *numbers;
  std::uint64_t first = 0;
  std::memcpy(&first, numbers, std::min(bytes, sizeof *numbers));
  untyped(x).ctx->check->read({operation, dims_text<dims_of<X>>(), at}, hash_bytes(numbers, bytes, 0), first,
                              dtype_of<typename X::element_type>);
}

}  // namespace detail

/// The number of a scalar. Placement: whole on every axis; a pending sum is refused.
template <any_tensor X>
typename X::element_type item(const X& x, [[maybe_unused]] call_site at = call_site::here()) {
  static_assert(dims_of<X>::ndim == 0,
                "weft: item(x) is the number of a scalar, and x has dimensions: sum(x) or mean(x) it, or read them all "
                "with on_host(x)");
  static_assert(detail::none<pending_in<layout_of<X>>>,
                "weft: a rank has only its addend of a pending sum: item(all_reduce<axis>(x)) is the number");
  if constexpr (dims_of<X>::ndim == 0) {
    const auto number = detail::local_item(x);
    detail::note_read(x, "item", &number, 1, at);
    return number;
  }
}

/// The numbers that this rank holds of x, row-major: its slice where x is sharded, its addend where a sum is pending.
/// On a device as well.
template <any_tensor X>
std::vector<typename X::element_type> local_share_on_host(const X& x) {
  std::vector<typename X::element_type> out(static_cast<std::size_t>(untyped(x).held().elements()));
  detail::download(x, out.data(), 0, untyped(x).held().elements());
  return out;
}

/// All of x's numbers, row-major. Placement: whole on every axis; pending sums and slices are refused.
template <any_tensor X>
std::vector<typename X::element_type> on_host(const X& x, call_site at = call_site::here()) {
  static_assert(detail::none<pending_in<layout_of<X>>>,
                "weft: a rank has only its addend of a pending sum: on_host(all_reduce<axis>(x)) has the numbers");
  static_assert(detail::none<sharded_in<layout_of<X>>>,
                "weft: a rank has only its slice of a sharded tensor: on_host(all_gather<axis>(x)) has all numbers, "
                "local_share_on_host(x) the slice");
  std::vector<typename X::element_type> out = local_share_on_host(x);
  detail::note_read(x, "on_host", out.data(), untyped(x).held().elements(), at);
  return out;
}

}  // namespace weft
