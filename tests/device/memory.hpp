// Addresses of a memory operand's 32 lanes. Invariant: what is computed here is checked by machine::memory_for.
#pragma once

#include "lanes.hpp"

namespace device {

struct lane_addresses {
  lane_addresses(warp_view& v, const operand& memory) {
    const operand& base = memory.all[0];
    const auto more = static_cast<std::uint64_t>(memory.value);
    if (base.is == operand::form::in_register && base.bytes == 4) {  // shared memory, by 32 bits
      const reading<std::uint32_t> from(v, base);
      for (int l = 0; l < lanes; ++l) of[l] = static_cast<std::uint32_t>(from[l] + static_cast<std::uint32_t>(more));
    } else {
      const reading<std::uint64_t> from(v, base);
      for (int l = 0; l < lanes; ++l) of[l] = from[l] + more;
    }
  }
  std::uint64_t of[lanes];
};

}  // namespace device
