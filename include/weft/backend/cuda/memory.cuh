// Device memory, and the host's that a device copies from. Invariant: what is freed has been allocated by the same call
// family.
#pragma once

#include <memory>

#include <weft/backend/cuda/error.cuh>
#include <weft/memory/source.hpp>

namespace weft::gpu {

namespace detail {
// What a call of the run-time allocates, or null where there is no more.
inline void* allocate_by(cudaError_t (*call)(void**, std::size_t), const char* name, std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = call(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(status, name);
  return memory;
}
}  // namespace detail

/// Memory of the calling thread's device, or null when it has no more; other failures throw weft::failure.
inline void* allocate(std::size_t bytes) { return detail::allocate_by(cudaMalloc, "cudaMalloc", bytes); }

/// For an arena of device memory. The arena orders the reuse of blocks on the host, so all work on them has to be on
/// one stream.
inline memory_source device_memory() {
  return {allocate, [](void* chunk) { cudaFree(chunk); }};
}

/// The same of the host's memory, page-locked.
inline void* allocate_pinned(std::size_t bytes) { return detail::allocate_by(cudaMallocHost, "cudaMallocHost", bytes); }

/// For an arena of it: a stream copies from there and to there beside others' kernels.
inline memory_source pinned_memory() {
  return {allocate_pinned, [](void* chunk) { cudaFreeHost(chunk); }};
}

struct free_device_memory {
  void operator()(void* memory) const { cudaFree(memory); }
};
using device_pointer = std::unique_ptr<void, free_device_memory>;

}  // namespace weft::gpu
