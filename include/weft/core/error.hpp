// Errors: one exception type whose message names the value, the axis or the file, and the way out.
#pragma once

#include <weft/core/requirements.hpp>

#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

#include <weft/core/linked.hpp>

namespace weft {

/// Thrown for bad input. The message is one sentence (or two) a user can act on.
class failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

/// One part of a message, so that joining them is compiled once.
struct message_part {
  enum { text, literal, integer, natural, real } kind;
  union {
    std::string_view characters;
    const char* ended;  // by a zero: whoever joins the parts counts
    long long signed_number;
    unsigned long long unsigned_number;
    double real_number;
  };

  message_part(std::string_view part) : kind(text), characters(part) {}
  message_part(const char& part) : kind(text), characters(&part, 1) {}  // a character, not its number
  message_part(const char* part) : kind(literal), ended(part) {}
  message_part(const std::string& part) : message_part(std::string_view(part)) {}
  template <class T>
  requires requires(T value) { value.here(); }
  message_part(T value) : message_part(value.here()) {}  // a number that may differ by rank
  template <class T>
  requires requires(T value) { std::to_string(value); }
  message_part(T value) {
    if constexpr (static_cast<T>(0.5) != T(0))
      kind = real, real_number = value;
    else if constexpr (static_cast<T>(-1) < T(0))
      kind = integer, signed_number = value;
    else
      kind = natural, unsigned_number = value;
  }
};

[[gnu::cold]] WEFT_LINKED void append(std::string& to, const message_part& part) {
  if (part.kind == message_part::text) to += part.characters;
  if (part.kind == message_part::literal) to += part.ended;
  if (part.kind == message_part::integer) to += std::to_string(part.signed_number);
  if (part.kind == message_part::natural) to += std::to_string(part.unsigned_number);
  if (part.kind == message_part::real) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.6g", part.real_number);  // std::to_string makes -1e-9 -0.000000
    to += digits;
  }
}
[[gnu::cold, gnu::noinline]] inline std::string join(const message_part* parts, std::size_t count) {
  std::string message;
  for (const message_part* part = parts; part != parts + count; ++part) append(message, *part);
  return message;
}
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_joined(const message_part* parts, std::size_t count) {
  throw failure(join(parts, count));
}

template <class... Parts>
[[gnu::cold, gnu::noinline]] std::string join_parts(Parts... parts) {
  const message_part all[] = {parts..., ""};
  return join(all, sizeof...(parts));
}
template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail_parts(Parts... parts) {
  const message_part all[] = {parts..., ""};
  fail_joined(all, sizeof...(parts));
}

// A part as what is passed by value, so that literals of all lengths are one type: the compiler makes a function for
// each list of types.
template <class T>
const T& as_part(const T& part) {
  return part;
}
inline const char* as_part(const char* part) { return part; }
inline std::string_view as_part(const std::string& part) { return part; }

/// The parts as one text.
template <class... Parts>
std::string text(const Parts&... parts) {
  return join_parts(as_part(parts)...);
}

}  // namespace detail

/// Throws `weft::failure` with the parts joined; numbers are printed in decimal.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  detail::fail_parts(detail::as_part(parts)...);
}

/// Throws unless `condition` holds. The parts are joined only on failure.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    fail(parts...);
}

}  // namespace weft
