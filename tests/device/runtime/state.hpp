// What the run-time library and cuBLASLt share: one device, its streams, and the lock around both. Invariant: whoever
// touches the device holds the lock.
#pragma once

#include <cstddef>
#include <map>

#include "../machine.hpp"
#include "mutant.hpp"
#include "streams.hpp"

namespace device {

struct state {
  state();
  ~state();  // says what was found, and ends the program with 97 if that is anything
  std::mutex lock;
  machine gpu;
  streams work;
  std::map<const std::byte*, std::size_t> pinned;  // the host's memory that copies needn't wait for, and its sizes
  mutant changed;
};
/// Of libcudart.so.13.
state& the_device();

}  // namespace device
