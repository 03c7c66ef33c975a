// How bench/cuda times a kernel: CUDA events around each of many calls on one stream, the median, on arrays of which
// there are several sets, so that no call finds the one before in the L2 cache. Invariant: outputs are NaN before the
// first call, and none is left after the last; else the row says so and the program fails.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <weft/backend/cuda.cuh>

namespace bench {

using weft::bf16;
using weft::cuda_backend;
using int64 = std::int64_t;

constexpr int sets = 2;  // of every array; each call takes the other one

template <class T>
__global__ void fill_numbers(T* x, int64 n, double low, double high, unsigned seed) {
  for (int64 i = int64{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += int64{gridDim.x} * blockDim.x) {
    unsigned h = static_cast<unsigned>(i) * 0x9E3779B9u + seed * 0x85EBCA6Bu;  // lowbias32 of Wellons
    h = (h ^ (h >> 16)) * 0x7FEB352Du;
    h = (h ^ (h >> 15)) * 0x846CA68Bu;
    h ^= h >> 16;
    const double number = low + (high - low) * (h * 0x1p-32);
    if constexpr (std::is_integral_v<T>)
      x[i] = static_cast<T>(number);
    else
      x[i] = weft::gpu::device_block::narrow<T>(static_cast<weft::accumulate_t<T>>(number));
  }
}

template <class T>
__global__ void count_nan(const T* x, int64 n, unsigned long long* found) {
  unsigned long long mine = 0;
  for (int64 i = int64{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += int64{gridDim.x} * blockDim.x) {
    const auto v = weft::gpu::device_block::widen(x[i]);
    mine += v != v;
  }
  if (mine) atomicAdd(found, mine);
}

/// `sets` arrays of n elements in device memory.
template <class T>
class array {
 public:
  /// An output: NaN everywhere.
  explicit array(int64 n) : n_(n), memory_(weft::gpu::allocate(bytes())) {
    weft::require(memory_ != nullptr, "out of device memory: ", bytes() >> 20, " MiB");
    poison();
  }
  /// An input of numbers in [low, high), the same in every run.
  array(int64 n, unsigned seed, double low = -1, double high = 1) : array(n) {
    fill_numbers<<<1024, 256>>>(at(), n_ * sets, low, high, seed);
    weft::gpu::check(cudaDeviceSynchronize(), "filling an array");
  }
  T* operator[](int set) const { return at() + n_ * set; }
  const T* in(int set) const { return at() + n_ * set; }
  int64 size() const { return n_; }

  void poison() const { weft::gpu::check(cudaMemset(at(), 0xff, bytes()), "cudaMemset"); }
  /// How many elements are NaN.
  unsigned long long left() const {
    unsigned long long here = 0;
    const weft::gpu::device_pointer memory(weft::gpu::allocate(sizeof here));
    auto* const found = static_cast<unsigned long long*>(memory.get());
    weft::gpu::check(cudaMemset(found, 0, sizeof here), "cudaMemset");
    count_nan<<<1024, 256>>>(at(), n_ * sets, found);
    weft::gpu::check(cudaMemcpy(&here, found, sizeof here, cudaMemcpyDefault), "counting NaN");
    return here;
  }
  /// Set 0's elements first ... first + count - 1, every `step`-th of them, on the host.
  std::vector<double> host(int64 first, int64 count, int64 runs = 1, int64 step = 0) const {
    std::vector<T> there(static_cast<std::size_t>(count));
    std::vector<double> all;
    for (int64 r = 0; r < runs; ++r) {
      weft::gpu::check(cudaMemcpy(there.data(), at() + first + r * step, there.size() * sizeof(T), cudaMemcpyDefault),
                       "cudaMemcpy");
      for (const T x : there) all.push_back(static_cast<double>(x));
    }
    return all;
  }

 private:
  T* at() const { return static_cast<T*>(memory_.get()); }
  std::size_t bytes() const { return static_cast<std::size_t>(n_ * sets) * sizeof(T); }

  int64 n_;
  weft::gpu::device_pointer memory_;
};

/// A call of a kernel of backend B on set s; rows whose kernel the backend lacks are left out.
#define BENCH_CALL(...) [&]<class B>(typename B::queue& q, int s) -> decltype(void(__VA_ARGS__)) { __VA_ARGS__; }

/// What a kernel is to do at least: bytes to and from memory, or floating-point operations.
struct work {
  double bytes = 0, operations = 0;
};

/// The most that GPU 0 moves and multiplies in a second, by the clocks and the width of memory that it names. A
/// multiprocessor's 16-bit products with sums in fp32, operations a clock, are the data sheets'.
struct peaks {
  double bytes = 0, operations = 0;

  static peaks of_card() {
    const auto number = [](cudaDeviceAttr which) {
      int n = 0;
      weft::gpu::check(cudaDeviceGetAttribute(&n, which, 0), "cudaDeviceGetAttribute");
      return static_cast<double>(n);
    };
    const double major = number(cudaDevAttrComputeCapabilityMajor), minor = number(cudaDevAttrComputeCapabilityMinor),
                 operations = major == 10                ? 8192
                              : major == 9               ? 4096
                              : major == 8 && minor == 0 ? 2048
                                                         : 512;
    return {number(cudaDevAttrMemoryClockRate) * 1e3 * 2 * number(cudaDevAttrGlobalMemoryBusWidth) / 8,
            number(cudaDevAttrClockRate) * 1e3 * number(cudaDevAttrMultiProcessorCount) * operations};
  }
};

class table {
 public:
  explicit table(std::string only) : queue_(cuda_backend::open(1, 0, 1)), only_(std::move(only)) {
    cudaDeviceProp card{};
    weft::gpu::check(cudaGetDeviceProperties(&card, 0), "cudaGetDeviceProperties");
    std::printf("%s, %d multiprocessors, L2 %d MiB; at most %.2f TB/s and %.0f TFLOP/s in 16 bits\n\n", card.name,
                card.multiProcessorCount, card.l2CacheSize >> 20, most_.bytes * 1e-12, most_.operations * 1e-12);
    std::printf("| %-26s | %-30s | %-7s | %9s | %9s | %7s | %-7s | %5s | %9s |\n", "kernel", "size", "by", "GB|GFLOP",
                "us", "rate", "", "/copy", "floor us");
    std::printf("|%s|%s|%s|%s|%s|%s|%s|%s|%s|\n", "---", "---", "---", "---", "---", "---", "---", "---", "---");
  }
  cuda_backend::queue& queue() { return *queue_; }
  /// Whether to make a group's arrays at all.
  bool wants(const char* group) const { return only_.empty() || only_ == group; }
  int failed() const { return failed_; }

  /// Times call, which is to fill `outputs`. right(): whether they are what they should be, where that is looked at.
  template <class Call, class Right, class... Outputs>
  void time(const std::string& kernel, const std::string& size, const work& w, const Call& call, const Right& right,
            const Outputs&... outputs) {
    if constexpr (requires { call.template operator()<cuda_backend>(*queue_, 0); }) {
      (outputs.poison(), ...);
      const auto run = [&](int i) { call.template operator()<cuda_backend>(*queue_, i % sets); };
      for (int i = 0; i < 2 * sets; ++i) run(i);
      queue_->synchronize();
      std::vector<cudaEvent_t> events(2 * calls);
      for (cudaEvent_t& e : events) weft::gpu::check(cudaEventCreate(&e), "cudaEventCreate");
      for (int i = 0; i < calls; ++i) {
        cudaEventRecord(events[2 * i], queue_->get());
        run(i);
        cudaEventRecord(events[2 * i + 1], queue_->get());
      }
      queue_->synchronize();
      std::vector<float> us;
      for (int i = 0; i < calls; ++i) {
        float ms = 0;
        weft::gpu::check(cudaEventElapsedTime(&ms, events[2 * i], events[2 * i + 1]), "cudaEventElapsedTime");
        us.push_back(1000 * ms);
      }
      for (cudaEvent_t e : events) cudaEventDestroy(e);
      std::nth_element(us.begin(), us.begin() + calls / 2, us.end());
      const unsigned long long left = (0ull + ... + outputs.left());
      const bool ok = left == 0 && right();
      failed_ += !ok;
      print(kernel, size, w, us[calls / 2]);
      if (!ok) std::printf("  ^ WRONG: %llu elements are NaN, or they are other numbers than they should be\n", left);
      std::fflush(stdout);
    } else {
      std::printf("| %-26s | %-30s | missing |\n", kernel.c_str(), size.c_str());
    }
  }

 private:
  static constexpr int calls = 31;

  void print(const std::string& kernel, const std::string& size, const work& w, double us) {
    const double rate = (w.operations > 0 ? w.operations : w.bytes) / us * 1e-6;  // 10^12 a second
    if (kernel == "copy") copy_ = rate;
    char share[16] = "";
    if (w.operations == 0 && copy_ > 0) std::snprintf(share, sizeof share, "%.2f", rate / copy_);
    const double least = std::max(w.bytes / most_.bytes, w.operations / most_.operations) * 1e6;
    std::printf("| %-26s | %-30s | %-7s | %9.3f | %9.1f | %7.3f | %-7s | %5s | %9.1f |\n", kernel.c_str(), size.c_str(),
                "weft", (w.operations > 0 ? w.operations : w.bytes) * 1e-9, us, rate,
                w.operations > 0 ? "TFLOP/s" : "TB/s", share, least);
  }

  std::shared_ptr<cuda_backend::queue> queue_;
  std::string only_;
  peaks most_ = peaks::of_card();
  double copy_ = 0;
  int failed_ = 0;
};

}  // namespace bench
