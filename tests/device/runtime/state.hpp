// What the run-time library, cuBLASLt and NCCL share: the devices, which are as many as WEFT_DEVICE_COUNT says (one) or
// those cards that WEFT_DEVICE_VISIBLE lists, their streams, and the lock around all. Invariant: whoever touches a
// device holds the lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "../machine.hpp"
#include "captures.hpp"
#include "mutant.hpp"
#include "streams.hpp"

namespace device {

/// Of the compute capability that it says it has; the minor number is 0.
inline constexpr int compute_major = 9;
inline constexpr int block_memory = 227 * 1024;  // of shared memory, that a block may have

/// What a program has called.
struct calls {
  std::uint64_t plain = 0;     // pieces of work that streams were given one by one
  std::uint64_t captured = 0;  // as nodes of graphs
  std::uint64_t launches = 0, instantiations = 0, updates = 0, refused_updates = 0;  // of graphs
  std::uint64_t waits = 0, waits_captured = 0;  // of the host, and those of them while a stream was captured
};

struct state {
  state();
  ~state();  // says what was found, and ends the program with 97 if that is anything
  std::mutex lock;
  std::uint64_t seed;  // of what is drawn
  machine gpu;
  streams work;
  captures kept;
  calls called;
  /// The next piece of work of a stream's, or, while that is captured, the next node of its graph.
  refusal give(streams::name stream, const char* kind, std::function<void(held_lock&)> work);
  /// The same of a function of the host.
  refusal give_host(streams::name stream, std::function<void()> f);
  std::map<const std::byte*, std::size_t> pinned;   // the host's memory that copies needn't wait for, and its sizes
  std::map<const std::byte*, std::size_t> of_nccl;  // a device's memory that ncclMemAlloc gave
  mutant changed;
  int devices;                      // how many there are
  std::vector<int> cards;           // which of the machine's each is
  std::atomic<unsigned> begun = 0;  // a bit for each on which something of this process was begun
};
/// Of libcudart.so.13.
state& the_device();
/// Which the calling thread has chosen.
int& chosen_device();
/// Of a stream; of the default one, the thread's.
int device_of(const void* stream);
/// Whether these bytes lie within one allocation of the device; else a finding.
bool require_inside(int device, const void* at, std::size_t bytes, const std::string& call);

}  // namespace device
