// What is checked of a rank's own arguments before anything is posted, and the operations of a group of one.
// Invariant: a call that fails here has had no effect on any rank.
#pragma once

#include <cstdint>
#include <cstring>

#include "weft/comm/call.hpp"
#include "weft/comm/request.hpp"

namespace weft::detail {

[[gnu::noinline]] inline void check_peer(const char* operation, int peer, int ranks) {
  require(peer >= 0 && peer < ranks, operation, " names rank ", peer, ", but the group's ranks are 0 to ", ranks - 1,
          ".");
}

WEFT_LINKED void check_call(const comm_call& call, int ranks) {
  const char* const name = name_of(call.operation);
  if (call.pairs() || call.is(comm_operation::broadcast)) check_peer(name, call.peer, ranks);
  if (call.pairs())
    require(call.tag >= 0 && call.tag <= 32767, name, " has the tag ", call.tag, "; tags are 0 to 32767.");
  require(call.count >= 0, name, " takes a size of zero or more, not ", call.count, ".");
  if (call.is(comm_operation::all_to_allv)) {
    require(call.send_bytes && call.recv_bytes, name,
            " was given no sizes; it takes bytes for each rank, and bytes from each.");
    for (int r = 0; r < ranks; ++r) {
      const std::int64_t least = call.send_bytes[r] < call.recv_bytes[r] ? call.send_bytes[r] : call.recv_bytes[r];
      require(least >= 0, name, " takes sizes of zero or more, not ", least, " for rank ", r, ".");
    }
  }
  const std::int64_t read = call.input_bytes(ranks), written = call.output_bytes(ranks);
  require((call.in || read == 0) && (call.out || written == 0), name, " of ", call.count ? call.count : read + written,
          " elements or bytes was given a null buffer; only an empty one may be null.");
  if (call.is(comm_operation::all_to_all) || call.is(comm_operation::all_to_allv))
    require(call.in != call.out || read == 0 || ranks == 1, name, " can't work in place; give it a second buffer.");
}

/// Every collective of a group of one: a copy, or nothing in place.
WEFT_LINKED request copy_alone(const comm_call& call) {
  const std::int64_t bytes = call.is(comm_operation::all_to_allv) ? call.send_bytes[0] : call.bytes();
  require(!call.is(comm_operation::all_to_allv) || bytes == call.recv_bytes[0], "a rank sends itself ", bytes,
          " bytes and receives ", call.recv_bytes ? call.recv_bytes[0] : 0, "; make the two sizes equal.");
  if (call.in != call.out && bytes > 0) std::memcpy(call.out, call.in, static_cast<std::size_t>(bytes));
  return {};
}

}  // namespace weft::detail
