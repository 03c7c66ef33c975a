// Memory of the tests' NCCL, and what of it is registered with which communicator. It is stricter than NVIDIA's, which
// counts how often a stretch was registered, cleans up with a communicator what is still registered, and takes memory
// of cudaMalloc's without using it. Invariant: what is registered is memory of ncclMemAlloc's, within one allocation of
// the communicator's own device; and it is deregistered, once, before it is freed and before the communicator ends.
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>

#include "nccl_comm.hpp"

namespace device::nccl {
namespace {

struct stretch {
  ncclComm_t comm;
  const std::byte* at;
  std::size_t bytes;

  bool holds(const std::byte* from, std::size_t size) const { return at <= from && from + size <= at + bytes; }
  bool meets(const std::byte* from, std::size_t size) const { return from < at + bytes && at < from + size; }
};
// By handle.
std::map<void*, stretch>& registered() {
  static std::map<void*, stretch> all;
  return all;
}
// The allocation of ncclMemAlloc's in which these bytes lie, if they do.
bool inside_own(const std::byte* at, std::size_t bytes) {
  const auto& all = the_device().of_nccl;
  const auto after = all.upper_bound(at);
  if (after == all.begin()) return false;
  const auto& [first, size] = *std::prev(after);
  return at + bytes <= first + size;
}
// Whether an operation that isn't done has an array there.
bool in_use(ncclComm_t c, const stretch& s) {
  const auto touches = [&](const nccl_call& call) {
    const int ranks = call.pairs() ? 1 : c->in->ranks();
    const std::size_t reads = bytes_read(call, c->rank, ranks), writes = call.writes(ranks);
    return (reads > 0 && s.meets(static_cast<const std::byte*>(call.in), reads)) ||
           (writes > 0 && s.meets(static_cast<const std::byte*>(call.out), writes));
  };
  for (const met& m : c->open)
    for (const auto& member : m->members)
      if (!m->done && member && member->rank == c->rank && touches(member->call)) return true;
  for (const auto& piece : c->pieces)
    for (const auto& p : piece->parts)
      if (!piece->done && touches(p.call)) return true;
  return false;
}

}  // namespace

nccl_array array_of(ncclComm_t c, const void* at, std::size_t bytes) {
  if (bytes == 0) return nccl_array::none;
  for (const auto& [handle, s] : registered())
    if (s.comm == c && s.holds(static_cast<const std::byte*>(at), bytes)) return nccl_array::registered;
  return nccl_array::plain;
}
int registered_with(ncclComm_t c) {
  int n = 0;
  for (const auto& [handle, s] : registered()) n += s.comm == c;
  return n;
}
void forget_registered(ncclComm_t c) {
  std::erase_if(registered(), [c](const auto& one) { return one.second.comm == c; });
}

}  // namespace device::nccl

using namespace device;
using namespace device::nccl;

extern "C" {

// Not in stretches of a granularity: what is beyond the bytes that were asked for is out of bounds.
ncclResult_t ncclMemAlloc(void** at, std::size_t bytes) {
  if (bytes == 0) return refuse("ncclMemAlloc is asked for nothing");
  if (cudaMalloc(at, bytes) != cudaSuccess) return cudaGetLastError(), ncclUnhandledCudaError;
  held_lock held(the_device().lock);
  the_device().of_nccl[static_cast<const std::byte*>(*at)] = bytes;
  return ncclSuccess;
}
// It waits for nothing: what still touches the memory is out of bounds.
ncclResult_t ncclMemFree(void* at) {
  held_lock held(the_device().lock);
  const auto found = the_device().of_nccl.find(static_cast<const std::byte*>(at));
  if (found == the_device().of_nccl.end()) return refuse("ncclMemFree is given what ncclMemAlloc didn't give");
  for (const auto& [handle, s] : registered())
    if (s.meets(found->first, found->second))
      return refuse("ncclMemFree is given memory that is registered with rank " + std::to_string(s.comm->rank) +
                    "'s communicator");
  the_device().of_nccl.erase(found);
  return the_device().gpu.release(at) ? ncclSuccess : ncclInternalError;
}

ncclResult_t ncclCommRegister(const ncclComm_t c, void* at, std::size_t bytes, void** handle) {
  held_lock held(the_device().lock);
  const user alone(held, c);
  *handle = nullptr;
  if (c->state == ncclInProgress)
    return refuse("ncclCommRegister is called while the communicator's last call is in progress");
  if (std::exchange(failure().registration, false)) {
    last_words() = "the stand-in's planned failure";
    return ncclSystemError;
  }
  if (const char* const on = std::getenv("NCCL_LOCAL_REGISTER"); on && std::strcmp(on, "0") == 0) return ncclSuccess;
  const auto* const from = static_cast<const std::byte*>(at);
  if (bytes == 0 || !require_inside(c->device, at, bytes, "ncclCommRegister")) return ncclInvalidArgument;
  if (!inside_own(from, bytes)) return refuse("ncclCommRegister is given memory that isn't of ncclMemAlloc's");
  for (const auto& [other, s] : registered())
    if (s.comm == c && s.meets(from, bytes))
      return refuse("ncclCommRegister is given memory that rank " + std::to_string(c->rank) +
                    "'s communicator has registered already");
  static std::uintptr_t made = 0;
  *handle = reinterpret_cast<void*>(++made);
  registered()[*handle] = {c, from, bytes};
  ++count().registrations;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t c, void* handle) {
  held_lock held(the_device().lock);
  const user alone(held, c);
  if (!handle) return ncclSuccess;
  const auto found = registered().find(handle);
  if (found == registered().end()) return refuse("ncclCommDeregister is given a handle that is none, or no more");
  if (found->second.comm != c) return refuse("ncclCommDeregister is given a handle of another communicator");
  if (c->state == ncclInProgress)
    return refuse("ncclCommDeregister is called while the communicator's last call is in progress");
  if (in_use(c, found->second))
    return refuse("ncclCommDeregister is given memory that an operation under way of rank " + std::to_string(c->rank) +
                  " has");
  registered().erase(found);
  return ncclSuccess;
}

}  // extern "C"
