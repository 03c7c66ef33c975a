// Device memory with numbers in it, for the programs whose kernels are counted.
#pragma once

#include <memory>
#include <type_traits>
#include <vector>

#include <weft/backend/cuda.cuh>

class report_memory {
 public:
  explicit report_memory(weft::gpu::stream& q) : q_(q) {}
  /// n numbers between -1 and 1, or from 0 below `ids`.
  template <class T>
  T* make(std::int64_t n, int ids = 0) {
    std::vector<T> numbers;
    for (std::int64_t i = 0; i < n; ++i) {
      seed_ = seed_ * 1664525u + 1013904223u;
      if constexpr (std::is_integral_v<T>)
        numbers.push_back(static_cast<T>((seed_ >> 8) % static_cast<unsigned>(ids)));
      else
        numbers.push_back(static_cast<T>(static_cast<float>(seed_ >> 24) / 128 - 1));
    }
    const std::size_t bytes = numbers.size() * sizeof(T);
    all_.emplace_back(weft::gpu::allocate(bytes));
    q_.upload(numbers.data(), all_.back().get(), bytes);
    return static_cast<T*>(all_.back().get());
  }

 private:
  weft::gpu::stream& q_;
  unsigned seed_ = 1;
  std::vector<weft::gpu::device_pointer> all_;
};
