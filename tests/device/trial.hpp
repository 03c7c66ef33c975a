// Kernels in PTX of their own, for tests of the device. Invariant: each trial has a device of its own.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "machine.hpp"

namespace device_test {

struct trial {
  explicit trial(const std::string& text, std::uint64_t seed = 1) : trial(text, seeded(seed)) {}
  trial(const std::string& text, const device::settings& s) : gpu(s), unit(text, gpu) {}
  static device::settings seeded(std::uint64_t seed) {
    device::settings s;
    s.seed = seed;
    return s;
  }
  /// Memory of n elements; written if values are given.
  template <class T>
  T* make(std::size_t n) {
    return static_cast<T*>(gpu.allocate(n * sizeof(T)));
  }
  template <class T>
  T* make(const std::vector<T>& values) {
    T* const at = make<T>(values.size());
    std::memcpy(at, values.data(), values.size() * sizeof(T));
    gpu.mark_written(at, values.size() * sizeof(T));
    return at;
  }
  /// Every argument is of 64 bits.
  template <class... T>
  void run(unsigned blocks, unsigned threads, unsigned shared, T... arguments) {
    std::vector<std::uint64_t> bytes(sizeof...(T) + 1);
    std::size_t i = 0;
    (std::memcpy(&bytes[i++], &arguments, sizeof(T)), ...);
    gpu.launch(unit, unit.find("k"), {{blocks, 1, 1}, {threads, 1, 1}, shared}, bytes.data());
  }
  bool found(const std::string& part) const {
    for (const std::string& f : gpu.findings())
      if (f.find(part) != std::string::npos) return true;
    return false;
  }
  std::string all() const {
    std::string out;
    for (const std::string& f : gpu.findings()) out += f + "\n";
    return out;
  }

  device::machine gpu;
  device::ptx_unit unit;
};

/// A kernel k of `parameters` words of 64 bits, %rd1 to %rd9 of them; %r1 is the thread, %r2 the block.
inline std::string kernel_text(int parameters, const std::string& body) {
  std::string out =
      ".version 9.0\n.target sm_90\n.address_size 64\n"
      ".extern .shared .align 16 .b8 dynamic[];\n.visible .entry k(\n";
  for (int i = 0; i < parameters; ++i) out += std::string(i ? "," : "") + ".param .u64 p" + std::to_string(i) + "\n";
  out +=
      ")\n{\n.reg .pred %p<20>;\n.reg .b16 %rs<20>;\n.reg .b32 %r<40>;\n.reg .f32 %f<20>;\n.reg .f64 %fd<20>;\n"
      ".reg .b64 %rd<40>;\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\n";
  for (int i = 0; i < parameters; ++i)
    out += "ld.param.u64 %rd" + std::to_string(i + 1) + ", [p" + std::to_string(i) + "];\n";
  return out + body + "\nret;\n}\n.file 1 \"kernel.cu\"\n";
}

}  // namespace device_test
