#include "special.hpp"

#include <map>

#include "machine.hpp"

namespace device {

int special_called(std::string_view name) {
  using s = special;
  static const std::map<std::string_view, s> known{{"%tid.x", s::thread_x},
                                                   {"%tid.y", s::thread_y},
                                                   {"%tid.z", s::thread_z},
                                                   {"%ntid.x", s::threads_x},
                                                   {"%ntid.y", s::threads_y},
                                                   {"%ntid.z", s::threads_z},
                                                   {"%ctaid.x", s::block_x},
                                                   {"%ctaid.y", s::block_y},
                                                   {"%ctaid.z", s::block_z},
                                                   {"%nctaid.x", s::blocks_x},
                                                   {"%nctaid.y", s::blocks_y},
                                                   {"%nctaid.z", s::blocks_z},
                                                   {"%laneid", s::lane},
                                                   {"%warpid", s::warp},
                                                   {"%lanemask_eq", s::lane_bit},
                                                   {"%lanemask_lt", s::lanes_below},
                                                   {"%lanemask_le", s::lanes_up_to},
                                                   {"%lanemask_gt", s::lanes_above},
                                                   {"%lanemask_ge", s::lanes_from}};
  const auto at = known.find(name);
  return at == known.end() ? -1 : static_cast<int>(at->second);
}

std::uint32_t special_value(const warp_view& v, std::uint32_t which, int lane) {
  const extent &threads = v.shape.block, &blocks = v.shape.grid, &block = v.in->index;
  const auto thread = static_cast<std::uint32_t>(v.own->number * lanes + lane);
  const std::uint32_t bit = 1u << lane;
  switch (static_cast<special>(which)) {
    case special::thread_x:
      return thread % threads.x;
    case special::thread_y:
      return thread / threads.x % threads.y;
    case special::thread_z:
      return thread / threads.x / threads.y;
    case special::threads_x:
      return threads.x;
    case special::threads_y:
      return threads.y;
    case special::threads_z:
      return threads.z;
    case special::block_x:
      return block.x;
    case special::block_y:
      return block.y;
    case special::block_z:
      return block.z;
    case special::blocks_x:
      return blocks.x;
    case special::blocks_y:
      return blocks.y;
    case special::blocks_z:
      return blocks.z;
    case special::lane:
      return static_cast<std::uint32_t>(lane);
    case special::warp:
      return static_cast<std::uint32_t>(v.own->number);
    case special::lane_bit:
      return bit;
    case special::lanes_below:
      return bit - 1;
    case special::lanes_up_to:
      return bit | (bit - 1);
    case special::lanes_above:
      return ~(bit | (bit - 1));
    case special::lanes_from:
      return ~(bit - 1);
  }
  return 0;
}

}  // namespace device
