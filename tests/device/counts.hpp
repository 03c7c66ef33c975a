// What a kernel asks of memory and of the tensor cores, counted by the rules by which a device of sm_80 to sm_90 serves
// a warp. Invariant: what is counted follows from addresses alone, so every run with the same arguments gives the same.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>

#include "program.hpp"

namespace device {

/// Of requests, one for each instruction of a warp that touches memory: what they took, and the least that so many
/// different bytes, for so many lanes, could take.
struct served {
  std::uint64_t requests = 0, took = 0, least = 0;
  std::uint64_t bytes = 0;  // that the lanes asked for, those of several lanes once
};

struct kernel_counts {
  std::uint64_t launches = 0, instructions = 0;  // of warps
  std::uint64_t threads = 0, block_bytes = 0;    // of a block at most: threads, and bytes of shared memory
  std::uint64_t products = 0;                    // mma.sync, and those that a warp's part of a wgmma is made of
  served loads, stores;                          // of global memory, in sectors of 32 bytes
  // In wavefronts: in each, every one of the 32 banks gives or takes a word of 4 bytes. Without what TMA writes and
  // wgmma reads.
  served shared;
  // Of global memory, what has to come from it or go to it at least: sectors that a launch read or wrote, each once.
  std::uint64_t moved_bytes = 0;
};

/// Which sectors a launch touched.
struct touched_sectors {
  std::unordered_set<std::uint64_t> read, written;
  void add(const std::uint64_t* at, std::uint32_t mask, int bytes, bool reads, bool writes);
  std::uint64_t bytes() const { return 32 * (read.size() + written.size()); }
};
/// Sectors of 32 bytes that the lanes of `mask` touch, each with `bytes` from at[lane] on.
void count_sectors(served& in, const std::uint64_t* at, std::uint32_t mask, int bytes);
/// Wavefronts: of up to 4 bytes a lane all lanes come together, of 8 half of them, of 16 a quarter. Lanes that want one
/// word share it; words of one bank come one after another. The least is one for those that come together: a wavefront
/// fills one register of each.
void count_wavefronts(served& in, const std::uint64_t* at, std::uint32_t mask, int bytes);

/// A table of all kernels, by name, as docs/cuda.md has it.
std::string table_of(const std::map<std::string, kernel_counts>& kernels);

}  // namespace device
