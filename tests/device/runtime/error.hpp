// The last error of a thread. Invariant: cudaGetLastError alone forgets it.
#pragma once

#include <cuda_runtime_api.h>

namespace device {

inline cudaError_t& last_error() {
  thread_local cudaError_t last = cudaSuccess;
  return last;
}
inline cudaError_t remembered(cudaError_t e) { return last_error() = e; }

}  // namespace device
