// What barriers of phases and copies of tiles know of each other. Invariant: a copy that lands makes its bytes known to
// its barrier, once.
#pragma once

#include "machine.hpp"

namespace device {

/// Begins the next phase, if this one lacks neither arrivals nor bytes.
void complete_phase(phase_barrier& b);
/// All copies that complete on the barrier at this offset land.
void land_tiles(warp_view& v, std::uint64_t phases);

/// An address of shared memory, in whichever way it is given, as an offset.
inline std::uint64_t shared_offset(std::uint64_t at) {
  return (at & window_bits) == (shared_window & window_bits) ? at - shared_window : at;
}

}  // namespace device
