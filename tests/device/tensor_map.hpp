// A tensor map, as cuTensorMapEncodeTiled of the tests' run-time makes it and cp.async.bulk.tensor reads it: what CUDA
// leaves opaque, in a form of our own. Invariant: it fits in the 128 bytes of a CUtensorMap, and says by its first word
// whether it is one.
#pragma once

#include <cstdint>

namespace device {

struct tensor_map {
  static constexpr std::uint32_t is_one = 0x77656674;
  std::uint32_t mark = 0;
  std::uint8_t dimensions = 0, element_bytes = 0, swizzle_bytes = 0, unused = 0;  // swizzle: 0, 32, 64 or 128
  std::uint64_t base = 0;
  std::uint32_t size[5] = {}, box[5] = {};  // sizes less one, since 2^32 is one
  std::uint64_t stride[5] = {};             // in bytes; of the first dimension an element's
};
static_assert(sizeof(tensor_map) <= 128);

/// Where a byte lies whose address without swizzling is `address`: of 128 bytes, chunks of 16 are exchanged by the
/// three bits of the address above them; of 64 by two, of 32 by one.
inline std::uint64_t swizzled(std::uint64_t address, int swizzle_bytes) {
  const std::uint64_t bits = swizzle_bytes == 128 ? 7 : swizzle_bytes == 64 ? 3 : swizzle_bytes == 32 ? 1 : 0;
  return address ^ (address >> 3 & bits << 4);
}

}  // namespace device
