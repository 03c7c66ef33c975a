// How a kernel is started on a stream. Invariant: one that can't be is an error that names the kernel and its grid.
#pragma once

#include <string>
#include <string_view>

#include <weft/backend/cuda/device_block.cuh>
#include <weft/backend/cuda/error.cuh>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error weft: kernels are for compute capability 8.0 and later: compile with -arch=sm_80, or for the GPU that there is
#endif

namespace weft::gpu {

inline constexpr int block_threads = 256;  // of a kernel that doesn't say how many it wants

/// How many blocks of a kernel are to share a multiprocessor, at least: what the kernel says, or 0, which leaves it to
/// the compiler.
template <class Kernel>
constexpr int blocks_at_once() {
  if constexpr (requires { Kernel::blocks_at_once; })
    return Kernel::blocks_at_once;
  else
    return 0;
}

/// The threads of a kernel's block: what the kernel says, or as many as others have.
template <class Kernel>
constexpr int threads_of() {
  if constexpr (requires { Kernel::threads; })
    return Kernel::threads;
  else
    return block_threads;
}

template <class Kernel>
__global__ void __launch_bounds__(threads_of<Kernel>(), blocks_at_once<Kernel>())
    run_on_device(const __grid_constant__ Kernel kernel) {
  device_block block;
  kernel(block);
}

namespace detail {

/// Says which kernel it was. `signature`: what a compiler calls a function whose one template argument is the kernel's
/// type.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_launch(cudaError_t status, const char* signature, int64 blocks,
                                                               int threads, std::size_t shared_bytes) {
  std::string name = signature;
  for (const std::string_view before : {"Kernel = ", "Kernel="})  // as g++ and nvcc put it
    if (const auto at = name.find(before); at != std::string::npos) name.erase(0, at + before.size());
  if (const auto end = name.find_first_of(";]"); end != std::string::npos) name.erase(end);
  for (const std::string_view place : {"weft::gpu::", "weft::"})
    for (auto at = name.find(place); at != std::string::npos; at = name.find(place)) name.erase(at, place.size());
  const std::string call = weft::detail::text("launching ", name, " with ", blocks, " blocks of ", threads,
                                              " threads and ", shared_bytes, " bytes of shared memory each");
  check(status, call.c_str());
  fail(call, " failed");
}
template <class Kernel>
void check_launch(cudaError_t status, int64 blocks, std::size_t shared_bytes) {
  if (status != cudaSuccess) [[unlikely]]
    fail_launch(status, __PRETTY_FUNCTION__, blocks, threads_of<Kernel>(), shared_bytes);
}

}  // namespace detail

/// Starts a kernel on a stream and returns. Throws weft::failure when it can't be started: the message names the kernel
/// and its grid.
template <class Kernel>
void launch(cudaStream_t on, int64 blocks, std::size_t shared_bytes, const Kernel& kernel) {
  if (blocks <= 0) return;
  if (shared_bytes > 48 * 1024)  // more than a kernel may have unasked
    detail::check_launch<Kernel>(
        cudaFuncSetAttribute(run_on_device<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)),
        blocks, shared_bytes);
  run_on_device<<<static_cast<unsigned>(blocks), threads_of<Kernel>(), shared_bytes, on>>>(kernel);
  detail::check_launch<Kernel>(cudaGetLastError(), blocks, shared_bytes);
}

}  // namespace weft::gpu
