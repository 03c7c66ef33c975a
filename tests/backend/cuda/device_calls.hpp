// What a program called of the device on the host since this was asked last (tests/device/runtime/state.hpp); a GPU
// doesn't say.
#pragma once

#include <cstdint>
#include <dlfcn.h>

namespace weft_test {

struct device_calls {
  std::uint64_t plain, captured;  // pieces of work that streams were given one by one, and as nodes of graphs
  std::uint64_t launches, instantiations, updates, refused_updates;  // of graphs
  std::uint64_t waits, waits_captured;  // of the host, and those of them while a stream was captured
};
/// False, and nothing written, where nobody counts.
inline bool count_calls(device_calls& out) {
  auto* const ask = reinterpret_cast<void (*)(device_calls&)>(dlsym(RTLD_DEFAULT, "weft_device_calls"));
  if (ask) ask(out);
  return ask != nullptr;
}

}  // namespace weft_test
