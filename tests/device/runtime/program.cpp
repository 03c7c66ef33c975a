// What nvcc's host code calls: a program's kernels, and their launches. Invariant: a launch that CUDA refuses is
// refused when it is made; what goes wrong while it runs is a finding.
#include <cuda_runtime_api.h>

#include <cstring>

#include "error.hpp"
#include "state.hpp"

namespace {

using namespace device;

struct known_kernel {
  ptx_unit* unit = nullptr;
  std::string name;
  int dynamic_shared = 48 * 1024;  // what it may have
};
std::map<const void*, known_kernel>& kernels() {
  static std::map<const void*, known_kernel> all;
  return all;
}
std::vector<std::unique_ptr<ptx_unit>>& units() {
  static std::vector<std::unique_ptr<ptx_unit>> all;
  return all;
}
struct configuration {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};
configuration& given_configuration() {
  thread_local configuration one;
  return one;
}

// A fat binary: a header of 16 bytes, then entries, of which kind 1 is PTX.
struct fat_entry {
  std::uint16_t kind, version;
  std::uint32_t header;
  std::uint64_t bytes;
  std::uint32_t compressed, options;
  std::uint16_t minor, major;
  std::uint32_t architecture, name_at, name_bytes;
  std::uint64_t flags, zero, uncompressed;
};
constexpr std::uint64_t any_compression = 0x8000 | 0x2000;
std::string ptx_in(const std::uint8_t* fat) {
  std::uint64_t size;
  std::memcpy(&size, fat + 8, sizeof size);
  std::string text;
  std::uint32_t newest = 0;
  for (const std::uint8_t *at = fat + 16, *const end = at + size; at < end;) {
    fat_entry e;
    std::memcpy(&e, at, sizeof e);
    if (e.kind == 1 && e.architecture >= newest) {
      if (e.flags & any_compression)
        throw refused("the program's PTX is compressed: nvcc --no-compress leaves it as it is");
      const std::string_view here(reinterpret_cast<const char*>(at) + e.header, e.bytes);
      const bool special = text.find(".target sm_90a") != std::string::npos;  // which this device prefers
      if (e.architecture > newest || !special) text = here;
      newest = e.architecture;
    }
    at += e.header + e.bytes;
  }
  if (text.empty()) throw refused("the program has no PTX: nvcc -gencode arch=compute_90,code=compute_90 makes some");
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

cudaError_t launch(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared, cudaStream_t on) {
  state& s = the_device();
  held_lock held(s.lock);
  const auto at = kernels().find(function);
  if (at == kernels().end() || !at->second.unit) return remembered(cudaErrorInvalidDeviceFunction);
  const kernel* code = nullptr;
  try {
    code = &at->second.unit->find(at->second.name);
  } catch (const refused& e) {
    s.gpu.find_fault(e.what());
    return remembered(cudaErrorInvalidDeviceFunction);
  }
  if (device_of(on) != chosen_device()) return remembered(cudaErrorInvalidResourceHandle);
  const launch_shape shape{{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, static_cast<std::uint32_t>(shared)};
  const std::uint64_t threads = shape.block.count();
  if (!shape.grid.count() || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535 || !threads || threads > 1024 ||
      block.z > 64)
    return remembered(cudaErrorInvalidConfiguration);
  if (threads > static_cast<std::uint64_t>(code->most_threads)) return remembered(cudaErrorLaunchOutOfResources);
  if (shared > static_cast<std::size_t>(at->second.dynamic_shared)) return remembered(cudaErrorInvalidValue);
  std::vector<std::uint8_t> bytes(code->parameter_bytes + 1);
  for (std::size_t i = 0; i < code->parameters.size(); ++i)
    std::memcpy(bytes.data() + code->parameters[i].at, arguments[i], code->parameters[i].bytes);
  return remembered(s.give(
      on, "kernel", [&s, unit = at->second.unit, code, shape, bytes = std::move(bytes), d = device_of(on)](held_lock&) {
        s.gpu.runs_on = d;
        try {
          s.gpu.launch(*unit, *code, shape, bytes.data());
        } catch (const refused& e) {
          s.gpu.find_fault(e.what());
        }
        s.changed.end_if_found(s.gpu);
      }));
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  struct wrapped {
    int magic, version;
    const std::uint8_t* data;
  };
  state& s = the_device();
  held_lock held(s.lock);
  units();
  try {
    units().push_back(std::make_unique<ptx_unit>(ptx_in(static_cast<wrapped*>(wrapper)->data), s.gpu));
    units().back()->change = [&s, unit = units().back().get()](kernel& k) { s.changed.look(k, *unit); };
  } catch (const refused& e) {
    s.gpu.find_fault(e.what());
    return nullptr;
  }
  return reinterpret_cast<void**>(units().back().get());
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void** unit, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  held_lock held(the_device().lock);
  kernels()[host] = {reinterpret_cast<ptx_unit*>(unit), name};
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
  given_configuration() = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  const configuration& c = given_configuration();
  *grid = c.grid, *block = c.block, *shared = c.shared, *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                               cudaStream_t stream) {
  return launch(kernel, grid, block, arguments, shared, stream);
}
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                             cudaStream_t stream) {
  return launch(function, grid, block, arguments, shared, stream);
}
// Without attributes: those change how a kernel starts.
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* function, void** arguments) {
  if (how->numAttrs) return remembered(cudaErrorNotSupported);
  return launch(function, how->gridDim, how->blockDim, arguments, how->dynamicSmemBytes, how->stream);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* function) {
  held_lock held(the_device().lock);
  const auto at = kernels().find(function);
  if (at == kernels().end() || !at->second.unit) return remembered(cudaErrorInvalidDeviceFunction);
  const kernel* known = nullptr;
  try {
    known = &at->second.unit->find(at->second.name);
  } catch (const refused& e) {
    the_device().gpu.find_fault(e.what());
    return remembered(cudaErrorInvalidDeviceFunction);
  }
  const kernel& code = *known;
  *out = {};
  out->ptxVersion = out->binaryVersion = 10 * compute_major;
  out->maxThreadsPerBlock = code.most_threads;
  out->sharedSizeBytes = code.shared_bytes;
  out->localSizeBytes = code.local_bytes;
  out->maxDynamicSharedSizeBytes = at->second.dynamic_shared;
  return cudaSuccess;
}
// One block at a time, as on a device with one multiprocessor that has room for no more.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int, std::size_t,
                                                                   unsigned) {
  held_lock held(the_device().lock);
  if (!kernels().count(function)) return remembered(cudaErrorInvalidDeviceFunction);
  return *blocks = 1, cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute what, int value) {
  held_lock held(the_device().lock);
  const auto at = kernels().find(function);
  if (at == kernels().end()) return remembered(cudaErrorInvalidDeviceFunction);
  if (what != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > block_memory)
    return remembered(cudaErrorInvalidValue);
  at->second.dynamic_shared = value;
  return cudaSuccess;
}

}  // extern "C"
