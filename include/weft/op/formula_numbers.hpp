// A formula's own numbers, told to a function that runs twice, and compared among ranks. Invariant: padding is no
// number.
#pragma once

#include <array>
#include <bit>
#include <cstring>

#include <weft/autograd/operate.hpp>

namespace weft::detail {

#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
#define WEFT_DETAIL_CLEARS_PADDING 1
#endif
#endif
#ifdef WEFT_DETAIL_CLEARS_PADDING
#undef WEFT_DETAIL_CLEARS_PADDING
/// An F's bytes, those of padding being 0.
template <class F>
std::array<unsigned char, sizeof(F)> bytes_of(F f) {
  std::array<unsigned char, sizeof(F)> bytes;
  __builtin_clear_padding(&f);
  std::memcpy(bytes.data(), &f, sizeof(F));
  return bytes;
}
#else
template <class F, std::size_t I>
constexpr unsigned char byte_of() {
  return std::bit_cast<std::array<unsigned char, sizeof(F)> >(F{})[I];
}
/// Whether byte I of an F can be read in a constant, as padding can't.
template <class F, std::size_t I>
constexpr bool is_number() {
  if constexpr (sizeof(F) > 512 || !requires { F{}; })
    return false;
  else
    return requires { typename std::integral_constant<unsigned char, byte_of<F, I>()>; };
}
/// An F's bytes, those being 0 that aren't known to be numbers: padding, and all of an F that no constant can be.
template <class F>
std::array<unsigned char, sizeof(F)> bytes_of(const F& f) {
  std::array<unsigned char, sizeof(F)> bytes;
  std::memcpy(bytes.data(), &f, sizeof(F));
  [&]<std::size_t... I>(std::index_sequence<I...>) { ((is_number<F, I>() ? void() : void(bytes[I] = 0)), ...); }
  (std::make_index_sequence<sizeof(F)>{});
  return bytes;
}
#endif

template <class F>
inline constexpr char same_type = 0;  // at an address of its own

/// Stands for a formula's own numbers.
template <class F>
std::uint64_t hash_of_numbers(const F& f) {
  const auto bytes = bytes_of(f);
  return hash_bytes(bytes.data(), bytes.size(), 1);
}
/// A formula's own numbers, beside others that an operator computes by.
template <class F>
computed_by with_numbers(const F& f, computed_by others) {
  if constexpr (!std::is_empty_v<F>)
    others.with(&f, [](const void* at) { return hash_of_numbers(*static_cast<const F*>(at)); });
  return others;
}
/// Tells a function that runs twice which formula comes.
template <class F>
void give_formula(context& ctx) {
  if (ctx.replay) ctx.replay->given(reinterpret_cast<std::uintptr_t>(&same_type<F>));  // in one process
}

}  // namespace weft::detail
