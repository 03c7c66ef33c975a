// What the laws of a backend share: a queue with memory beside it, random numbers, comparison with what loops in double
// gave, and a report of which kernels were tried.
// Invariant: what a kernel writes lies between its arrays' ends; the bytes behind them are looked at.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <weft/backend/kernels.hpp>
#include <weft/core/random.hpp>

namespace weft::testing {

/// Which kernels a backend's laws tried, which it lacks, and a hash of all that came out, by which two runs of one
/// backend are compared bit for bit (with other numbers of threads, say).
struct backend_report {
  std::vector<std::string> tried, lacking;  // as "softmax of bf16"
  std::uint64_t digest = 0;

  /// Throws weft::failure, with their names, where kernels are lacking: for a backend that is meant to have them all.
  const backend_report& require_complete() const {
    std::string names;
    for (const std::string& kernel : lacking) names += (names.empty() ? "" : ", ") + kernel;
    require(lacking.empty(), "the backend has no kernel, or none that takes what operators give it, for ", names);
    return *this;
  }
  void join(const backend_report& other) {
    tried.insert(tried.end(), other.tried.begin(), other.tried.end());
    lacking.insert(lacking.end(), other.lacking.begin(), other.lacking.end());
    digest = digest * 0x100000001b3u ^ other.digest;
  }
};

namespace detail::kernels {

using int64 = std::int64_t;
using doubles = std::vector<double>;

/// Largest relative error of rounding to T: 2^-p for p significant bits.
template <class T>
inline constexpr double rounding = dtype_of<T> == dtype::f64   ? 0x1p-53
                                   : dtype_of<T> == dtype::f32 ? 0x1p-24
                                   : dtype_of<T> == dtype::f16 ? 0x1p-11
                                                               : 0x1p-8;
/// The same for the type that sums are kept in, and half a subnormal step of 16 bits.
template <class T>
inline constexpr double sum_rounding = rounding<accumulate_t<T>>;
template <class T>
inline constexpr double subnormal = sizeof(T) == 2 ? 0x1p-25 : 1e-37;

template <class T>
T make(double x) {
  return static_cast<T>(x);
}
inline std::size_t at(int64 i) { return static_cast<std::size_t>(i); }

/// n numbers of T in [low, high).
template <class T>
std::vector<T> numbers(int64 n, std::uint64_t seed, double low = -2, double high = 2) {
  const philox source{seed, 77};
  std::vector<T> out(at(n));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = make<T>(low + (high - low) * (source.uniform(2 * i) + 0x1p-24 * source.uniform(2 * i + 1)));
  return out;
}
template <class T>
doubles widened(const std::vector<T>& x) {
  doubles out;
  for (const T v : x) out.push_back(static_cast<double>(v));
  return out;
}
inline doubles plus(doubles a, const doubles& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// One backend's queue and memory. `law` is said of each kernel before it is called.
template <class B>
class bench {
 public:
  explicit bench(int threads) : memory_(B::memory()), queue_(B::open(1, 0, threads)) {}

  typename B::queue& queue() { return *queue_; }
  arena& memory() { return memory_; }
  backend_report report;

  /// Notes whether the backend has a kernel; what follows is said of it.
  bool has(bool there, const char* kernel, dtype type) {
    law_ = std::string(kernel) + " of " + std::string(name_of(type));
    (there ? report.tried : report.lacking).push_back(law_);
    return there;
  }
  /// Throws with the kernel's name.
  template <class... Args>
  void must(bool right, const Args&... args) const {
    if (!right) fail("the backend's ", law_, ": ", args...);
  }
  /// Every element within relative * |want| + absolute, or the same NaN or infinity.
  template <class T>
  void near(const char* what, const std::vector<T>& got, const doubles& want, double relative, double absolute) {
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double x = static_cast<double>(got[i]), y = want[i];
      const bool right = std::isfinite(y) ? std::fabs(x - y) <= relative * std::fabs(y) + absolute
                                          : x == y || (std::isnan(x) && std::isnan(y));
      must(right, what, ": element ", i, " of ", want.size(), " is ", x, ", not ", y);
    }
  }
  void mix(const void* bytes, std::size_t n) {
    const auto* p = static_cast<const unsigned char*>(bytes);
    for (std::size_t i = 0; i < n; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, p + i, n - i < 8 ? n - i : 8);
      report.digest = (report.digest ^ word) * 0x9e3779b97f4a7c15u;
      report.digest ^= report.digest >> 29;
    }
  }

 private:
  arena memory_;
  std::shared_ptr<typename B::queue> queue_;  // ends before the memory
  std::string law_;
};

/// An array in the backend's memory, made of the host's numbers; 64 bytes behind it must stay as they are.
template <class B, class T>
class buffer {
 public:
  buffer(bench<B>& on, const std::vector<T>& x) : bench_(on), n_(x.size()) {
    std::vector<std::byte> bytes(n_ * sizeof(T) + border, std::byte{0x5a});
    if (n_) std::memcpy(bytes.data(), x.data(), n_ * sizeof(T));
    shape size;
    size.push_back(static_cast<int64>(bytes.size()));
    memory_ = local_array(on.memory(), dtype::u8, size, memory::data);
    B::upload(on.queue(), bytes.data(), memory_.data, size[0]);
  }
  /// n numbers that a kernel is to replace: NaN, or -1.
  buffer(bench<B>& on, int64 n) : buffer(on, std::vector<T>(at(n), make<T>(std::nan("")))) {}
  T* out() const { return static_cast<T*>(memory_.data); }
  const T* in() const { return static_cast<const T*>(memory_.data); }
  /// What it holds now.
  std::vector<T> host() const {
    std::vector<std::byte> bytes(n_ * sizeof(T) + border);
    B::download(bench_.queue(), memory_.data, bytes.data(), static_cast<int64>(bytes.size()));
    for (std::size_t i = n_ * sizeof(T); i < bytes.size(); ++i)
      bench_.must(bytes[i] == std::byte{0x5a}, "it wrote behind the end of its output");
    std::vector<T> out(n_);
    if (n_) std::memcpy(out.data(), bytes.data(), n_ * sizeof(T));
    bench_.mix(out.data(), n_ * sizeof(T));
    return out;
  }
  /// The same memory as operators hand it to the kernels of memory.
  local_array as_array() const {
    shape size;
    size.push_back(static_cast<int64>(n_));
    return {memory_.data, dtype_of<T>, size};
  }

 private:
  static constexpr std::size_t border = 64;
  bench<B>& bench_;
  std::size_t n_;
  local_array memory_;
};

/// Both ways of a kernel that writes or adds: f(out, false) gives `want`, f(out, true) adds it to what is there.
template <class T, class B, class F>
void writes_and_adds(bench<B>& b, const char* what, const doubles& want, double relative, double absolute, F f) {
  const auto old = numbers<T>(static_cast<int64>(want.size()), 91);
  const buffer<B, T> y(b, static_cast<int64>(want.size())), sum(b, old);
  f(y.out(), false);
  b.near(what, y.host(), want, relative, absolute);
  f(sum.out(), true);
  b.near((std::string(what) + ", added").c_str(), sum.host(), plus(want, widened(old)), relative + rounding<T>,
         absolute + 4 * sum_rounding<T>);
}

/// Runs Family<B, T>(bench) for each element type on a queue of so many threads.
template <class B, class... Ts, class F>
backend_report each_type(int threads, F family) {
  bench<B> b(threads);
  (family.template operator()<Ts>(b), ...);
  return b.report;
}

}  // namespace detail::kernels

}  // namespace weft::testing
