// The run-time's errors and their words. Invariant: as error.hpp's.
#include "error.hpp"

#include <utility>

using namespace device;

cudaError_t device::remembered(refusal why) {
  switch (why) {
    case refusal::none:
      return cudaSuccess;
    case refusal::unsupported:
      return remembered(cudaErrorStreamCaptureUnsupported);
    case refusal::invalidated:
      return remembered(cudaErrorStreamCaptureInvalidated);
    case refusal::merge:
      return remembered(cudaErrorStreamCaptureMerge);
    case refusal::unmatched:
      return remembered(cudaErrorStreamCaptureUnmatched);
    case refusal::unjoined:
      return remembered(cudaErrorStreamCaptureUnjoined);
    case refusal::isolation:
      return remembered(cudaErrorStreamCaptureIsolation);
    case refusal::implicit:
      return remembered(cudaErrorStreamCaptureImplicit);
    case refusal::captured_event:
      return remembered(cudaErrorCapturedEvent);
    case refusal::wrong_thread:
      return remembered(cudaErrorStreamCaptureWrongThread);
    case refusal::illegal_state:
      return remembered(cudaErrorIllegalState);
  }
  return remembered(cudaErrorUnknown);
}

extern "C" {

cudaError_t cudaPeekAtLastError() { return last_error(); }
cudaError_t cudaGetLastError() { return std::exchange(last_error(), cudaSuccess); }
const char* cudaGetErrorString(cudaError_t e) {
  switch (e) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDeviceFunction:
      return "invalid device function";
    case cudaErrorLaunchOutOfResources:
      return "too many resources requested for launch";
    case cudaErrorInvalidMemcpyDirection:
      return "invalid copy direction for memcpy";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalState:
      return "the operation cannot be performed in the present state";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureMerge:
      return "operation would result in a merge of separate capture sequences";
    case cudaErrorStreamCaptureUnmatched:
      return "capture was not ended in the same stream as it began";
    case cudaErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    case cudaErrorStreamCaptureImplicit:
      return "operation would make the legacy stream depend on a capturing blocking stream";
    case cudaErrorCapturedEvent:
      return "operation not permitted on an event last recorded in a capturing stream";
    case cudaErrorStreamCaptureWrongThread:
      return "attempt to terminate a thread-local capture sequence from another thread";
    case cudaErrorGraphExecUpdateFailure:
      return "the graph update was not performed because it included changes which violated constraints specific to "
             "instantiated graph update";
    default:
      return "an error that the device on the host doesn't know";
  }
}

}  // extern "C"
