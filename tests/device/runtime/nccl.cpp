// NCCL over the devices on the host, in a strict reading of its documentation: what a program calls. Its operations are
// those of nccl_threads.cpp or nccl_processes.cpp; a communicator that doesn't block answers ncclInProgress a drawn
// number of times, and only then are they on their streams. Invariant: ranks that call different operations, arrays
// that aren't the device's, operations on one device that no wait puts in order, and threads that use one communicator
// at once are findings.
#include <cstring>

#include "nccl_comm.hpp"

using namespace device;
using namespace device::nccl;

namespace {

struct group_call {
  int depth = 0;
  std::vector<std::pair<ncclComm_t, nccl_call>> calls;
};
group_call& own_group() {
  thread_local group_call one;
  return one;
}

ncclResult_t end_group(held_lock& held) {
  std::vector<std::pair<ncclComm_t, std::vector<nccl_call>>> by;
  for (auto& [c, call] : std::exchange(own_group().calls, {})) {
    auto at = by.begin();
    while (at != by.end() && at->first != c) ++at;
    if (at == by.end()) at = by.insert(at, {c, {}});
    at->second.push_back(call);
  }
  ncclResult_t worst = ncclSuccess;
  for (auto& [c, calls] : by) {
    const ncclResult_t got = begin(
        held, c, [] { return true; },
        [c = c, calls = calls](held_lock& h) {
          c->outside ? commit_processes(c, calls) : commit_threads(h, c, calls);
        });
    if (got != ncclSuccess && (worst == ncclSuccess || worst == ncclInProgress)) worst = got;
  }
  return worst;
}
ncclResult_t call(ncclComm_t c, const nccl_call& what) {
  held_lock held(the_device().lock);
  if (what.peer < 0 || what.peer >= c->in->ranks()) return refuse("there is no such peer");
  nccl_call given = what;
  const int ranks = what.pairs() ? 1 : c->in->ranks();
  given.in_is = array_of(c, what.in, bytes_read(what, c->rank, ranks));
  given.out_is = array_of(c, what.out, what.writes(ranks));
  const auto is = [&](nccl_array kind) { return given.in_is == kind || given.out_is == kind; };
  if (is(nccl_array::plain) || is(nccl_array::registered)) ++count().operations;
  if (is(nccl_array::registered) && !is(nccl_array::plain)) ++count().in_registered;
  own_group().calls.emplace_back(c, given);
  return own_group().depth > 0 ? ncclSuccess : end_group(held);
}

}  // namespace

extern "C" {

// For tests: the operation that begins after so many others never ends, and its communicator reports an error, to
// whoever asks it after so many others.
void weft_nccl_fail_after(int operations, int looks) {
  held_lock held(the_device().lock);
  failure().operations = operations, failure().looks = looks;
}
// For tests: the next split never ends, and rank 0 is told.
void weft_nccl_fail_split() {
  held_lock held(the_device().lock);
  failure().split = true;
}
// For tests: the next ncclCommRegister fails.
void weft_nccl_fail_registration() {
  held_lock held(the_device().lock);
  failure().registration = true;
}
// For tests: how many operations ranks of this process have called, each rank's counted, how many of these had all
// their arrays in registered memory, and how often memory was registered.
void weft_nccl_counts(unsigned long long* operations, unsigned long long* in_registered,
                      unsigned long long* registrations) {
  held_lock held(the_device().lock);
  *operations = count().operations, *in_registered = count().in_registered, *registrations = count().registrations;
}
// For tests: communicators that are neither destroyed nor aborted.
int weft_nccl_live() {
  held_lock held(the_device().lock);
  return live();
}

ncclResult_t ncclGetVersion(int* version) { return *version = NCCL_VERSION_CODE, ncclSuccess; }
const char* ncclGetErrorString(ncclResult_t status) {
  constexpr const char* words[] = {"no error",
                                   "unhandled cuda error",
                                   "unhandled system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a network error",
                                   "NCCL operation in progress"};
  return status >= 0 && status < ncclNumResults ? words[status] : "unknown result code";
}
const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string words;
  held_lock held(the_device().lock);
  return (words = last_words()).c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  held_lock held(the_device().lock);
  static std::uint64_t made = 0;
  *id = {};
  std::memcpy(id->internal, &++made, sizeof made);
  const std::string name = shared_clique::new_name();
  if (sizeof made + name.size() >= sizeof id->internal) return refuse("WEFT_DEVICE_SHARED is too long a folder's name");
  std::memcpy(id->internal + sizeof made, name.data(), name.size());
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  held_lock held(the_device().lock);
  std::uint64_t number;
  std::memcpy(&number, id.internal, sizeof number);
  if (const std::string name = id.internal + sizeof number; !name.empty())
    return join_processes(held, comm, ranks, name, rank, config);
  return join_threads(held, comm, ranks, number, rank, config);
}
ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  held_lock held(the_device().lock);
  *made = nullptr;
  if (parent->outside) return refuse("ncclCommSplit is called on a communicator of processes, which nobody has needed");
  return split_threads(held, parent, color, key, made, config);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t* state) {
  held_lock held(the_device().lock);
  const user alone(held, c);
  if (c->state == ncclInProgress && c->may_go_on() && c->answers-- <= 0) {
    c->state = ncclSuccess, c->on_abort = nullptr;
    std::exchange(c->then, nullptr)(held);
  }
  if (c->fails_in >= 0 && c->fails_in-- == 0) c->state = ncclRemoteError;
  *state = c->state;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t c, int* count) { return *count = c->in->ranks(), ncclSuccess; }
ncclResult_t ncclCommUserRank(const ncclComm_t c, int* rank) { return *rank = c->rank, ncclSuccess; }
ncclResult_t ncclCommFinalize(ncclComm_t c) {
  held_lock held(the_device().lock);
  if (const int left = registered_with(c))
    refuse("a communicator ends, and its rank " + std::to_string(c->rank) + " has " + std::to_string(left) +
           " stretches of memory registered with it");
  if (c->in_graphs.use_count() > 1)
    refuse("a communicator ends, and a graph has operations of its rank " + std::to_string(c->rank) +
           ", for whose end NCCL waits");
  bool whole = true;
  for (const auto& piece : c->pieces)
    for (const auto& p : piece->parts) whole = whole && (piece->done || c->outside->all(p, &shared_channel::given));
  if (!whole)
    refuse("a communicator ends, and an operation of its rank " + std::to_string(c->rank) + " was never called by all");
  for (const met& m : c->open)
    if (!m->complete())
      refuse("a communicator ends, and an operation of its rank " + std::to_string(c->rank) +
             " was never called by all");
  return begin(
      held, c, [] { return true; }, [](held_lock&) {});
}
ncclResult_t ncclCommDestroy(ncclComm_t c) {
  held_lock held(the_device().lock);
  if (c->state == ncclInProgress) refuse("a communicator is destroyed while its last call is in progress");
  if (c->outside) c->outside->own().ended = 1;
  end(held, c);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t c) {
  held_lock held(the_device().lock);
  *c->aborted = true;
  for (const met& m : c->open) m->stuck = true;
  if (c->outside) c->outside->own().ended = 2;
  if (c->on_abort) c->on_abort(held);
  changed().notify_all();  // who brings its stream on leaves it, and is waited for
  end(held, c);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() { return ++own_group().depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() {
  held_lock held(the_device().lock);
  if (own_group().depth == 0) return refuse("ncclGroupEnd without ncclGroupStart");
  return --own_group().depth > 0 ? ncclSuccess : end_group(held);
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t how,
                           ncclComm_t c, cudaStream_t on) {
  return call(c, {nccl_word::all_reduce, in, out, count, type, how, 0, on});
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t how,
                               ncclComm_t c, cudaStream_t on) {
  return call(c, {nccl_word::reduce_scatter, in, out, count, type, how, 0, on});
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t c,
                           cudaStream_t on) {
  return call(c, {nccl_word::all_gather, in, out, count, type, ncclSum, 0, on});
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root, ncclComm_t c,
                           cudaStream_t on) {
  return call(c, {nccl_word::broadcast, in, out, count, type, ncclSum, root, on});
}
ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t on) {
  return call(c, {nccl_word::send, in, nullptr, count, type, ncclSum, peer, on});
}
ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t on) {
  return call(c, {nccl_word::receive, nullptr, out, count, type, ncclSum, peer, on});
}

}  // extern "C"
