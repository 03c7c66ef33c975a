// The CUDA backend, for a strategy to name. Invariant: a queue is one stream of one device; a call returns when its
// work is queued, except those that read device memory or upload much.
#pragma once

#include <weft/backend/cuda/backend.hpp>
#include <weft/backend/cuda/stream.cuh>

namespace weft {

struct cuda_backend : gpu::device_kernels<gpu::stream> {
  /// The queue of one rank: on GPU 0, which ranks of one process share, or on that which the communicator gave this
  /// thread (backend/nccl.cuh). There, a launch of one rank stays on its GPU, and ranks of a launch that share one are
  /// all on GPU 0; what ends with the queue, on its thread. Throws weft::failure where there is none.
  static std::shared_ptr<queue> open(int ranks, int rank, int /*threads*/) {
    const auto [own, whose] = gpu::gpu_of_thread;  // of nccl's rank
    if (ranks == 1 || rank == whose || own == 0) return std::make_shared<queue>(own);
    return {new queue(0), [own = own](queue* q) {
              delete q;
              cudaSetDevice(own);
            }};
  }
  /// Where its tensors live, and whether the host may read them there.
  static constexpr bool host_memory = false;
  static memory_source memory() { return gpu::device_memory(); }
  /// The host's, for what is copied to the device and back beside kernels.
  static memory_source pinned_memory() { return gpu::pinned_memory(); }
};

}  // namespace weft
