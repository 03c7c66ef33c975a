// Numbers on a rank's GPU that kernels change, and the functions of NCCL's stand-in, for the tests of ranks over NCCL.
#pragma once

#include <dlfcn.h>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <weft/backend/cuda.cuh>

namespace weft_test {

namespace gpu = weft::gpu;

// A function of the stand-in's; null where NCCL is NVIDIA's.
template <class F>
F* of_stand_in(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}
// What the stand-in has counted in this process up to now; nothing where NCCL is NVIDIA's.
struct nccl_counts {
  unsigned long long operations = 0, in_registered = 0, registrations = 0;

  nccl_counts() {
    using count = void(unsigned long long*, unsigned long long*, unsigned long long*);
    if (auto* const read = of_stand_in<count>("weft_nccl_counts")) read(&operations, &in_registered, &registrations);
  }
  // All that ranks of this process gave NCCL since then lay in registered memory, which was registered once for many
  // operations.
  void check_all_registered_since(const nccl_counts& before) const {
    if (!of_stand_in<int()>("weft_nccl_live")) return;
    const auto moved = operations - before.operations, made = registrations - before.registrations;
    CHECK(moved > 20);
    CHECK(in_registered - before.in_registered == moved);
    CHECK(made > 0);
    CHECK(made * 10 < moved);
  }
};
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
  floats(gpu::stream& on, std::int64_t count, float first, const weft::memory_source& from = gpu::device_memory())
      : q(on), n(count), memory(from.allocate(static_cast<std::size_t>(count) * 4), from.release) {
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
  std::unique_ptr<void, void (*)(void*)> memory;
};

}  // namespace weft_test
