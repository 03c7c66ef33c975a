// What every communicator checks of its own rank's arguments before anything is posted, and the collective of one rank.
// Invariant: a call that fails here has had no effect on any rank.
#pragma once

#include <cstdint>
#include <cstring>

#include "weft/comm/request.hpp"

namespace weft::detail {

[[gnu::noinline]] inline void check_size(const char* operation, std::int64_t count, bool null) {
  require(count >= 0, operation, " takes a size of zero or more, not ", count, ".");
  require(count == 0 || !null, operation, " of ", count,
          " elements or bytes was given a null buffer; only an empty one may be null.");
}

inline void check_buffers(const char* operation, const void* in, const void* out, std::int64_t count) {
  check_size(operation, count, in == nullptr || out == nullptr);
}

[[gnu::noinline]] inline void check_peer(const char* operation, int peer, int size) {
  require(peer >= 0 && peer < size, operation, " names rank ", peer, ", but the group's ranks are 0 to ", size - 1,
          ".");
}

/// Every collective of a group of one: a copy, or nothing in place.
inline request copy_alone(const char* operation, const void* in, void* out, std::int64_t count, std::int64_t width) {
  check_buffers(operation, in, out, count);
  if (in != out && count > 0) std::memcpy(out, in, static_cast<std::size_t>(count * width));
  return {};
}

}  // namespace weft::detail
