// The calls of the CUDA run-time that the library makes: memory, copies, streams, events. Invariant: what isn't here
// doesn't link or load, by its name; a copy of what isn't device memory is a finding.
#include <cuda_runtime_api.h>

#include <algorithm>
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
  bool asked = false;       // once: it may well not have happened yet
  captured_point within{};  // a capture
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
// On which device each end is, if it is on one.
struct ends {
  int to, from;
};
void copy(ends on, void* to, const void* from, std::size_t bytes, cudaMemcpyKind how) {
  machine& gpu = the_device().gpu;
  if (how == cudaMemcpyDefault) how = way(to, from, bytes);
  const bool to_fits = how == cudaMemcpyDeviceToHost || require_inside(on.to, to, bytes, "cudaMemcpy, to");
  const bool from_fits = how == cudaMemcpyHostToDevice || require_inside(on.from, from, bytes, "cudaMemcpy, from");
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
  if (!bytes) return cudaSuccess;
  const cudaMemcpyKind known = how == cudaMemcpyDefault ? way(to, from, bytes) : how;  // of a graph's node for good
  const char* const kind = known == cudaMemcpyHostToDevice   ? "copy to the device"
                           : known == cudaMemcpyDeviceToHost ? "copy to the host"
                                                             : "copy on the device";
  // Of memory that isn't pinned a copy waits for the stream.
  const bool is_host[2] = {known == cudaMemcpyHostToDevice, known == cudaMemcpyDeviceToHost};
  if ((is_host[0] && !is_pinned(from, bytes)) || (is_host[1] && !is_pinned(to, bytes)))
    if (the_device().kept.captures_on(on)) return remembered(the_device().kept.host_waits(on));
  return remembered(the_device().give(on, kind, [=, d = device_of(on)](held_lock&) {
    copy({d, d}, to, from, bytes, how);
  }));
}
cudaError_t copy_between(ends are, void* to, const void* from, std::size_t bytes, cudaStream_t on) {
  for (const int device : {are.to, are.from})
    if (device < 0 || device >= the_device().devices) return remembered(cudaErrorInvalidDevice);
  if (!bytes) return cudaSuccess;
  return remembered(the_device().give(on, "copy between devices",
                                      [=](held_lock&) { copy(are, to, from, bytes, cudaMemcpyDeviceToDevice); }));
}
cudaError_t fill_later(void* at, int value, std::size_t bytes, cudaStream_t on) {
  if (bytes == 0) return cudaSuccess;
  return remembered(the_device().give(on, "fill", [=, d = device_of(on)](held_lock&) {
    if (!require_inside(d, at, bytes, "cudaMemset")) return;
    std::memset(at, value, bytes);
    the_device().gpu.mark_written(at, bytes);
  }));
}
// What the host does that waits for something, or may not be done while something is captured; counted as a wait.
cudaError_t waits(refusal why) {
  ++the_device().called.waits;
  the_device().called.waits_captured += the_device().kept.any_of_thread();
  return remembered(why);
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
    case cudaDevAttrMaxGridDimX:
      *value = 0x7fffffff;
      return cudaSuccess;
    default:
      return remembered(cudaErrorInvalidValue);
  }
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* are, int) {
  *are = {};
  are->major = compute_major, are->multiProcessorCount = 1, are->sharedMemPerBlockOptin = block_memory;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** at, std::size_t bytes) {
  begin_device();
  held_lock held(the_device().lock);
  if (const cudaError_t e = remembered(the_device().kept.forbidden())) return e;
  *at = bytes ? the_device().gpu.allocate(bytes, chosen_device()) : nullptr;
  return *at || !bytes ? cudaSuccess : remembered(cudaErrorMemoryAllocation);
}
cudaError_t cudaMemGetInfo(std::size_t* left, std::size_t* all) {
  begin_device();
  held_lock held(the_device().lock);
  const std::size_t taken = the_device().gpu.allocated(chosen_device());
  *all = std::size_t{80} << 30;
  *left = *all - std::min(*all, taken);
  return cudaSuccess;
}
cudaError_t cudaFree(void* at) {  // waits for the whole device
  held_lock held(the_device().lock);
  if (!at) return cudaSuccess;
  if (const cudaError_t e = waits(the_device().kept.forbidden())) return e;
  the_device().work.finish_all(held);
  if (the_device().of_nccl.contains(static_cast<const std::byte*>(at))) {
    the_device().gpu.find_fault("cudaFree is given memory of ncclMemAlloc's, which ncclMemFree frees");
    return remembered(cudaErrorInvalidValue);
  }
  return the_device().gpu.release(at) ? cudaSuccess : remembered(cudaErrorInvalidValue);
}
// Freeing it waits for nothing: a copy that comes later isn't within any memory.
cudaError_t cudaMallocHost(void** at, std::size_t bytes) {
  held_lock held(the_device().lock);
  if (const cudaError_t e = remembered(the_device().kept.forbidden())) return e;
  *at = bytes ? ::operator new(bytes, std::nothrow) : nullptr;
  if (*at) the_device().pinned[static_cast<const std::byte*>(*at)] = bytes;
  return *at || !bytes ? cudaSuccess : remembered(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void* at) {
  held_lock held(the_device().lock);
  if (!at) return cudaSuccess;
  if (const cudaError_t e = remembered(the_device().kept.forbidden())) return e;
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
  if (const cudaError_t e = waits(the_device().kept.host_waits(nullptr))) return e;
  const cudaError_t status = copy_later(to, from, bytes, how, nullptr);
  the_device().work.finish(held, nullptr);
  return status;
}
// A program that doesn't name both devices has no business with another's memory.
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t on) {
  begin_device();
  held_lock held(the_device().lock);
  return copy_between({to_device, from_device}, to, from, bytes, on);
}
cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, std::size_t bytes) {
  held_lock held(the_device().lock);
  if (const cudaError_t e = waits(the_device().kept.host_waits(nullptr))) return e;
  the_device().work.finish_all(held);
  const cudaError_t status = copy_between({to_device, from_device}, to, from, bytes, nullptr);
  the_device().work.finish(held, nullptr);
  return status;
}
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t on) {
  begin_device();
  held_lock held(the_device().lock);
  return fill_later(at, value, bytes, on);
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
  if (const refusal why = the_device().kept.host_waits(stream); the_device().kept.captures_on(stream))
    return remembered(why);
  the_device().work.finish(held, stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  held_lock held(the_device().lock);
  if (const cudaError_t e = waits(the_device().kept.host_waits(stream))) return e;
  the_device().work.finish(held, stream);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  held_lock held(the_device().lock);
  if (const cudaError_t e = waits(the_device().kept.host_waits_for_all())) return e;
  the_device().work.finish_all(held);
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t f, void* given) {
  held_lock held(the_device().lock);
  return remembered(the_device().give_host(stream, [=] { f(given); }));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned) {
  *made = new CUevent_st;
  (*made)->device = chosen_device();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  begin_device();
  held_lock held(the_device().lock);
  if (event->device != device_of(stream)) return remembered(cudaErrorInvalidResourceHandle);
  *event = {event->device, stream, the_device().work.given(stream), false, the_device().kept.at(stream)};
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  begin_device();
  held_lock held(the_device().lock);
  state& s = the_device();
  const bool joins = s.kept.is_captured(event->within);
  if (const refusal why = s.kept.wait(stream, event->within); why != refusal::none || joins) return remembered(why);
  s.work.give(stream, [&s, at = event->stream, number = event->number](held_lock& h) { s.work.finish(h, at, number); });
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  held_lock held(the_device().lock);
  if (const cudaError_t e = waits(the_device().kept.host_waits(event->within))) return e;
  the_device().work.finish(held, event->stream, event->number);
  return cudaSuccess;
}
// Who asks again and again is answered in the end.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  begin_device();
  held_lock held(the_device().lock);
  if (const cudaError_t e = remembered(the_device().kept.host_waits(event->within))) return e;
  if (the_device().work.done(event->stream, event->number)) return cudaSuccess;
  if (!std::exchange(event->asked, true)) return remembered(cudaErrorNotReady);
  the_device().work.finish(held, event->stream, event->number);
  return cudaSuccess;
}

}  // extern "C"
