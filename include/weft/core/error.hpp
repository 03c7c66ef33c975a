// Errors: one exception type whose message names the value, the axis or the file, and the way out.
#pragma once

#include <stdexcept>
#include <string>

namespace weft {

/// Thrown for bad input. The message is one sentence (or two) a user can act on.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

inline void append(std::string& to, const char* text) { to += text; }
inline void append(std::string& to, const std::string& text) { to += text; }
template <class T>
  requires requires(T value) { std::to_string(value); }
void append(std::string& to, T value) {
  to += std::to_string(value);
}

}  // namespace detail

/// Throws `weft::error` with the parts joined; numbers are printed in decimal.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::string message;
  (detail::append(message, parts), ...);
  throw error(message);
}

/// Throws unless `condition` holds. The parts are joined only on failure.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]] fail(parts...);
}

}  // namespace weft
