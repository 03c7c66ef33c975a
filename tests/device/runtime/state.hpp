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
#include "mutant.hpp"
#include "streams.hpp"

namespace device {

/// Of the compute capability that it says it has; the minor number is 0.
inline constexpr int compute_major = 9;
inline constexpr int block_memory = 227 * 1024;  // of shared memory, that a block may have

struct state {
  state();
  ~state();  // says what was found, and ends the program with 97 if that is anything
  std::mutex lock;
  machine gpu;
  streams work;
  std::map<const std::byte*, std::size_t> pinned;  // the host's memory that copies needn't wait for, and its sizes
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
