// Errors of the CUDA run-time and of cuBLASLt become weft::failure. Invariant: a message names the call and what CUDA
// says of it.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <weft/core/error.hpp>

namespace weft::gpu {

inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // an error that isn't sticky shall not be reported again by the next call
  const bool of_graph = status >= cudaErrorStreamCaptureUnsupported && status <= cudaErrorStreamCaptureWrongThread;
  fail(call, " failed: ", cudaGetErrorString(status), " (CUDA error ", static_cast<int>(status), ")",
       of_graph ? "; a graph, which is kept back here, can't have this, or something before it: leave step_graph, or "
                  "begin_graph(), out to find what"
                : "");
}

inline void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  fail(call, " failed: ", cublasLtGetStatusString(status), " (cuBLASLt status ", static_cast<int>(status), ")");
}

/// GPUs that this process can use; 0 where there is none or no driver (then CUDA answers 35 and writes no count).
inline int device_count() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice) {
    cudaGetLastError();
    return 0;
  }
  check(status, "cudaGetDeviceCount");
  return count;
}

/// Makes `device` the calling thread's. Throws weft::failure when it isn't there.
inline void use_device(int device) {
  const int count = device_count();
  require(count > 0,
          "there is no NVIDIA GPU here that CUDA can use, or no driver for it: run with cpu_backend, or on a machine "
          "with both");
  require(device >= 0 && device < count, "there is no GPU number ", device, ": this machine has ", count,
          ", counted from 0");
  check(cudaSetDevice(device), "cudaSetDevice");
}

/// On which GPU a rank's queue is opened by this thread, and which rank of its launch that is.
struct own_gpu {
  int number = 0, rank = 0;
};
inline thread_local own_gpu gpu_of_thread{};

/// Another device as this thread's, for a while.
class scoped_device {
 public:
  explicit scoped_device(int device) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    use_device(device);
  }
  ~scoped_device() { cudaSetDevice(before_); }
  scoped_device(const scoped_device&) = delete;
  scoped_device& operator=(const scoped_device&) = delete;

 private:
  int before_ = 0;
};

}  // namespace weft::gpu
