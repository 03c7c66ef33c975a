// Registers that PTX has by name: who a thread is, and of how many. Invariant: the same in every run.
#pragma once

#include <cstdint>
#include <string_view>

namespace device {

enum class special : std::uint32_t {
  thread_x,
  thread_y,
  thread_z,
  threads_x,
  threads_y,
  threads_z,
  block_x,
  block_y,
  block_z,
  blocks_x,
  blocks_y,
  blocks_z,
  lane,
  warp,
  lane_bit,
  lanes_below,
  lanes_up_to,
  lanes_above,
  lanes_from
};

/// -1: none, or one that would differ from run to run, as a clock.
int special_called(std::string_view name);
struct warp_view;
std::uint32_t special_value(const warp_view& v, std::uint32_t which, int lane);

}  // namespace device
