// Numbers on a rank's GPU that kernels change, and the functions of NCCL's stand-in, for the tests of ranks over NCCL.
#pragma once

#include <dlfcn.h>
#include <vector>

#include <weft/backend/cuda.cuh>

namespace weft_test {

namespace gpu = weft::gpu;

// A function of the stand-in's; null where NCCL is NVIDIA's.
template <class F>
F* of_stand_in(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}
// out[i] = a in[i] + b
struct affine {
  std::int64_t n;
  float a, b;
  const float* in;
  float* out;
  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    for (std::int64_t i = block.index() * block.threads() + block.thread(); i < n;
         i += block.blocks() * block.threads())
      out[i] = a * in[i] + b;
  }
};

// n floats on a rank's GPU, each `first`.
struct floats {
  floats(gpu::stream& on, std::int64_t count, float first)
      : q(on), n(count), memory(gpu::allocate(static_cast<std::size_t>(count) * 4)) {
    const std::vector<float> all(static_cast<std::size_t>(n), first);
    q.upload(all.data(), data(), all.size() * 4);
  }
  float* data() { return static_cast<float*>(memory.get()); }
  void set(float a, float b) { q.start(1, 0, affine{n, a, b, data(), data()}); }
  std::vector<float> all() {
    std::vector<float> out(static_cast<std::size_t>(n));
    q.download(data(), out.data(), out.size() * 4);
    return out;
  }
  gpu::stream& q;
  std::int64_t n;
  gpu::device_pointer memory;
};

}  // namespace weft_test
