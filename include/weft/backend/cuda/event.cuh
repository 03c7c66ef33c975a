// A point in a stream's work, for other streams and the host to wait for. Invariant: one that was never recorded has
// happened.
#pragma once

#include <memory>

#include <weft/backend/cuda/error.cuh>

namespace weft::gpu {

class event {
 public:
  event() {
    cudaEvent_t raw = nullptr;
    check(cudaEventCreateWithFlags(&raw, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    event_.reset(raw);
  }
  cudaEvent_t get() const { return event_.get(); }
  bool happened() const {
    const cudaError_t status = cudaEventQuery(event_.get());
    if (status == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    check(status, "cudaEventQuery");
    return true;
  }
  void synchronize() const { check(cudaEventSynchronize(event_.get()), "cudaEventSynchronize"); }

 private:
  struct destroy {
    void operator()(cudaEvent_t e) const { cudaEventDestroy(e); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, destroy> event_;
};

}  // namespace weft::gpu
