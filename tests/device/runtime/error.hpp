// The last error of a thread, and what refusals are called. Invariant: cudaGetLastError alone forgets it.
#pragma once

#include <cuda_runtime_api.h>

#include "captures.hpp"

namespace device {

inline cudaError_t& last_error() {
  thread_local cudaError_t last = cudaSuccess;
  return last;
}
inline cudaError_t remembered(cudaError_t e) { return last_error() = e; }

/// Why a call was refused that a stream's capture has to do with.
cudaError_t remembered(refusal why);

}  // namespace device
