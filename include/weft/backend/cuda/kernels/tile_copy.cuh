// Copies of whole tiles into shared memory by the tensor memory accelerator, and the barriers of phases that say when
// they are there (PTX: cp.async.bulk.tensor, mbarrier), of sm_90. Invariant: rows lie 128 bytes apart, their chunks of
// 16 bytes exchanged as wgmma's 128-byte swizzle has them; so a tile begins at a multiple of 1,024.
#pragma once

#include <weft/core/requirements.hpp>

#include <cuda.h>

#include <cstdint>

namespace weft::gpu {

/// Bytes of a tile's row, and of what its swizzle repeats after.
inline constexpr int tile_row_bytes = 128, tile_swizzle_bytes = 1024;

/// An address of shared memory in 32 bits, as these instructions take it.
__device__ inline std::uint32_t in_shared(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

/// A barrier in shared memory, of phases that are complete once so many threads have arrived and all bytes are there
/// that were said to come. Phases are 0, 1, 0, 1, ...
struct phase_barrier {
  std::uint64_t words;

  /// By one thread; then that thread calls show_to_copies(), and all meet.
  __device__ void make(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(in_shared(this)), "r"(arrivals) : "memory");
  }
  __device__ static void show_to_copies() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(in_shared(this)) : "memory");
  }
  /// And copies of so many bytes are to come.
  __device__ void arrive_and_expect(int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(in_shared(this)), "r"(bytes)
                 : "memory");
  }
  /// Waits until this phase is complete; of a new barrier, phase 1 counts as complete.
  __device__ void wait(int phase) {
    for (;;) {
      std::uint32_t complete;
      asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                   : "=r"(complete)
                   : "r"(in_shared(this)), "r"(phase)
                   : "memory");
      if (complete) return;
    }
  }
};

/// Begins to copy the box at these coordinates of a tensor of four dimensions; where it reaches beyond, zeros.
__device__ inline void copy_tile(const CUtensorMap& from, int c0, int c1, int c2, int c3, std::uint32_t to,
                                 phase_barrier& there) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
      "[%6];" ::"r"(to),
      "l"(&from), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(in_shared(&there))
      : "memory");
}

/// Panels of 64 columns of one head, `rows` rows in each, as map_tiles has them, one behind the other.
template <int Panels>
__device__ void copy_panels(const CUtensorMap& from, int head, int row, int batch, int rows, std::uint32_t to,
                            phase_barrier& there) {
  for (int p = 0; p < Panels; ++p)
    copy_tile(from, p * (tile_row_bytes / 2), head, row, batch,
              to + static_cast<std::uint32_t>(p * rows * tile_row_bytes), there);
}

/// What is brought into a part of shared memory, and that it may be brought anew.
struct tile_slot {
  phase_barrier there, free;
  /// For so many that bring, and so many that say they are done with it. As phase_barrier::make.
  __device__ void make(int bring, int use) { there.make(bring), free.make(use); }
  /// By all lanes of a warp that used it, which says so once: first they meet, since one that is still asking whether
  /// it is there would ask of a later phase.
  template <class Block>
  __device__ void release(Block& block) {
    block.sync_warp();
    if (block.lane() == 0) free.arrive();
  }
};
/// Which of `Stages` slots the n-th tile has, and in which phase of its barriers.
template <int Stages>
struct tile_turn {
  int n = 0;
  __device__ int stage() const { return n % Stages; }
  __device__ int phase() const { return n / Stages & 1; }
};

/// Whether this lane is the one of its warp that does what one has to do. All lanes ask.
__device__ inline bool elected() {
  std::uint32_t yes;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(yes));
  return yes;
}

}  // namespace weft::gpu
