// The calls of the CUDA run-time that the library makes: memory, copies, streams, events. Invariant: what isn't here
// doesn't link or load, by its name; a copy of what isn't device memory is a finding.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "error.hpp"
#include "state.hpp"

using namespace device;

// A point in a stream.
struct CUevent_st {
  int device = 0;
  const void* stream = nullptr;
  std::uint64_t number = 0;
  bool asked = false;  // once: it may well not have happened yet
};

// Its address is its name.
struct CUstream_st {
  int device;
};
int device::device_of(const void* stream) {
  return stream ? static_cast<const CUstream_st*>(stream)->device : chosen_device();
}

namespace {

bool is_pinned(const void* at, std::size_t bytes) {
  const auto& all = the_device().pinned;
  const auto* const first = static_cast<const std::byte*>(at);
  auto of = all.upper_bound(first);
  if (of == all.begin()) return false;
  --of;
  return first + bytes <= of->first + of->second;
}
// Which way cudaMemcpyDefault is: what isn't the device's has to be pinned still, when its turn comes.
cudaMemcpyKind way(const void* to, const void* from, std::size_t bytes) {
  const bool is_read = is_pinned(from, bytes), is_written = is_pinned(to, bytes);
  return is_read == is_written ? cudaMemcpyDeviceToDevice : is_read ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
}
void copy(int device, void* to, const void* from, std::size_t bytes, cudaMemcpyKind how) {
  machine& gpu = the_device().gpu;
  if (how == cudaMemcpyDefault) how = way(to, from, bytes);
  const bool to_fits = how == cudaMemcpyDeviceToHost || require_inside(device, to, bytes, "cudaMemcpy, to");
  const bool from_fits = how == cudaMemcpyHostToDevice || require_inside(device, from, bytes, "cudaMemcpy, from");
  if (!to_fits || !from_fits) return;
  std::memmove(to, from, bytes);
  if (how == cudaMemcpyHostToDevice) gpu.mark_written(to, bytes);
  if (how == cudaMemcpyDeviceToDevice) gpu.copy_marks(from, to, bytes);
  if (how == cudaMemcpyDeviceToHost && !gpu.has_padding() && !gpu.all_written(from, bytes))
    gpu.find_fault("cudaMemcpy: the host is given " + std::to_string(bytes) + " bytes, not all of which were written");
}
cudaError_t copy_later(void* to, const void* from, std::size_t bytes, cudaMemcpyKind how, cudaStream_t on) {
  if (how != cudaMemcpyHostToDevice && how != cudaMemcpyDeviceToHost && how != cudaMemcpyDeviceToDevice &&
      how != cudaMemcpyDefault)
    return remembered(cudaErrorInvalidMemcpyDirection);
  if (bytes) the_device().work.give(on, [=, d = device_of(on)](held_lock&) { copy(d, to, from, bytes, how); });
  return cudaSuccess;
}
void fill_later(void* at, int value, std::size_t bytes, cudaStream_t on) {
  the_device().work.give(on, [=, d = device_of(on)](held_lock&) {
    if (bytes == 0 || !require_inside(d, at, bytes, "cudaMemset")) return;
    std::memset(at, value, bytes);
    the_device().gpu.mark_written(at, bytes);
  });
}

// Whatever a thread does begins something on the device that it has chosen, 0 where it chose none.
void begin_device() { the_device().begun |= 1u << chosen_device(); }

}  // namespace

extern "C" {

// For tests: a bit for each device on which anything was begun since it was asked last.
unsigned weft_device_begun() { return the_device().begun.exchange(0); }

cudaError_t cudaGetDeviceCount(int* count) { return *count = the_device().devices, cudaSuccess; }
cudaError_t cudaSetDevice(int number) {
  if (number < 0 || number >= the_device().devices) return remembered(cudaErrorInvalidDevice);
  chosen_device() = number;
  return begin_device(), cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int number) {
  if (number < 0 || number >= the_device().devices) return remembered(cudaErrorInvalidDevice);
  const int written = std::snprintf(id, static_cast<std::size_t>(length), "0000:%02X:00.0",
                                    static_cast<unsigned>(the_device().cards[static_cast<std::size_t>(number)] + 1));
  return written < length ? cudaSuccess : remembered(cudaErrorInvalidValue);
}
cudaError_t cudaGetDevice(int* number) { return *number = chosen_device(), cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int) {
  switch (what) {
    case cudaDevAttrMultiProcessorCount:
      *value = 1;  // few blocks, so that each has several rows or tiles to go through
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = block_memory;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = compute_major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    default:
      return remembered(cudaErrorInvalidValue);
  }
}
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
    default:
      return "an error that the device on the host doesn't know";
  }
}

cudaError_t cudaMalloc(void** at, std::size_t bytes) {
  begin_device();
  held_lock held(the_device().lock);
  *at = bytes ? the_device().gpu.allocate(bytes, chosen_device()) : nullptr;
  return *at || !bytes ? cudaSuccess : remembered(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* at) {  // waits for the whole device
  held_lock held(the_device().lock);
  if (!at) return cudaSuccess;
  the_device().work.finish_all(held);
  return the_device().gpu.release(at) ? cudaSuccess : remembered(cudaErrorInvalidValue);
}
// Freeing it waits for nothing: a copy that comes later isn't within any memory.
cudaError_t cudaMallocHost(void** at, std::size_t bytes) {
  held_lock held(the_device().lock);
  *at = bytes ? ::operator new(bytes, std::nothrow) : nullptr;
  if (*at) the_device().pinned[static_cast<const std::byte*>(*at)] = bytes;
  return *at || !bytes ? cudaSuccess : remembered(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void* at) {
  held_lock held(the_device().lock);
  if (!at) return cudaSuccess;
  if (!the_device().pinned.erase(static_cast<const std::byte*>(at))) return remembered(cudaErrorInvalidValue);
  ::operator delete(at);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind how, cudaStream_t on) {
  begin_device();
  held_lock held(the_device().lock);
  return copy_later(to, from, bytes, how, on);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind how) {
  held_lock held(the_device().lock);
  const cudaError_t status = copy_later(to, from, bytes, how, nullptr);
  the_device().work.finish(held, nullptr);
  return status;
}
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t on) {
  begin_device();
  held_lock held(the_device().lock);
  fill_later(at, value, bytes, on);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* at, int value, std::size_t bytes) { return cudaMemsetAsync(at, value, bytes, nullptr); }

// Streams that wait for the default one aren't there: the library makes none.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
  if (flags != cudaStreamNonBlocking) return remembered(cudaErrorInvalidValue);
  *made = new CUstream_st{chosen_device()};
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  held_lock held(the_device().lock);
  the_device().work.finish(held, stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  held_lock held(the_device().lock);
  the_device().work.finish(held, stream);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  held_lock held(the_device().lock);
  the_device().work.finish_all(held);
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t f, void* given) {
  held_lock held(the_device().lock);
  the_device().work.give_host(the_device().lock, stream, [=] { f(given); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned) {
  return *made = new CUevent_st{chosen_device()}, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  begin_device();
  held_lock held(the_device().lock);
  if (event->device != device_of(stream)) return remembered(cudaErrorInvalidResourceHandle);
  *event = {event->device, stream, the_device().work.given(stream), false};
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  begin_device();
  held_lock held(the_device().lock);
  the_device().work.give(stream, [at = *event](held_lock& h) { the_device().work.finish(h, at.stream, at.number); });
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  held_lock held(the_device().lock);
  the_device().work.finish(held, event->stream, event->number);
  return cudaSuccess;
}
// Who asks again and again is answered in the end.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  begin_device();
  held_lock held(the_device().lock);
  if (the_device().work.done(event->stream, event->number)) return cudaSuccess;
  if (!std::exchange(event->asked, true)) return remembered(cudaErrorNotReady);
  the_device().work.finish(held, event->stream, event->number);
  return cudaSuccess;
}

}  // extern "C"
