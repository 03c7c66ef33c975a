// The operations of a communicator by their names. Invariant: what is posted is valid: a call with a wrong size, peer
// or tag throws on its own rank, before anything has moved.
#pragma once

#include <cstdint>

#include "weft/comm/call.hpp"
#include "weft/comm/detail/check.hpp"
#include "weft/comm/request.hpp"

namespace weft {

/// Gives a communicator C, which derives from it, the operations of `communicator` by name; each is a call of C's
/// post. Sizes are of one rank's part, as the concept says (comm/concept.hpp).
/// @throws weft::failure for negative sizes, null buffers, a peer that is no rank of the group, a tag out of its range.
template <class C>
class comm_operations {
 public:
  request all_reduce(const void* in, void* out, std::int64_t count, dtype type, reduction how,
                     const collective_label& label = {}) {
    return start({.operation = comm_operation::all_reduce,
                  .type = type,
                  .how = how,
                  .in = in,
                  .out = out,
                  .count = count,
                  .label = label});
  }
  request all_gather(const void* in, void* out, std::int64_t bytes, const collective_label& label = {}) {
    return start({.operation = comm_operation::all_gather, .in = in, .out = out, .count = bytes, .label = label});
  }
  request reduce_scatter(const void* in, void* out, std::int64_t count, dtype type, reduction how,
                         const collective_label& label = {}) {
    return start({.operation = comm_operation::reduce_scatter,
                  .type = type,
                  .how = how,
                  .in = in,
                  .out = out,
                  .count = count,
                  .label = label});
  }
  request all_to_all(const void* in, void* out, std::int64_t bytes, const collective_label& label = {}) {
    return start({.operation = comm_operation::all_to_all, .in = in, .out = out, .count = bytes, .label = label});
  }
  /// Parts of any sizes, one behind another in the order of ranks: send_bytes[r] to rank r, recv_bytes[r] from it, as
  /// many as rank r sends to this one. Both arrays, of size() numbers, live until the operation is complete.
  request all_to_allv(const void* in, const std::int64_t* send_bytes, void* out, const std::int64_t* recv_bytes,
                      const collective_label& label = {}) {
    return start({.operation = comm_operation::all_to_allv,
                  .in = in,
                  .out = out,
                  .send_bytes = send_bytes,
                  .recv_bytes = recv_bytes,
                  .label = label});
  }
  request broadcast(void* buffer, std::int64_t bytes, int root, const collective_label& label = {}) {
    return start({.operation = comm_operation::broadcast,
                  .in = buffer,
                  .out = buffer,
                  .count = bytes,
                  .peer = root,
                  .label = label});
  }
  request send(const void* in, std::int64_t bytes, int to, int tag, const collective_label& label = {}) {
    return start({.operation = comm_operation::send, .in = in, .count = bytes, .peer = to, .tag = tag, .label = label});
  }
  request recv(void* out, std::int64_t bytes, int from, int tag, const collective_label& label = {}) {
    return start(
        {.operation = comm_operation::recv, .out = out, .count = bytes, .peer = from, .tag = tag, .label = label});
  }
  request barrier(const collective_label& label = {}) { return start({.label = label}); }

 private:
  [[gnu::noinline]] request start(const comm_call& call) {
    C& self = static_cast<C&>(*this);
    detail::check_call(call, self.size());
    return self.post(call);
  }
};

}  // namespace weft
