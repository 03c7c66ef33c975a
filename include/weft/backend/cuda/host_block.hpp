// The host's execution context: runs a kernel's blocks one after another, a fiber for each of a block's threads, so
// that kernels can be tested without a GPU. Invariant: a body sees what it would on a GPU; whose turn it is, is said
// by its schedule.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <weft/backend/cuda/host_schedule.hpp>

namespace weft::cuda {

/// What a kernel's body sees of its block; see device_block for the same on a GPU.
class host_block {
 public:
  host_block(detail::host_schedule& schedule, int thread) : schedule_(schedule), thread_(thread) {}

  int thread() const { return thread_; }
  int threads() const { return schedule_.launch.threads; }
  int64 index() const { return schedule_.block; }
  int64 blocks() const { return schedule_.launch.blocks; }
  int lane() const { return thread_ % warp_size; }
  int warp() const { return thread_ / warp_size; }
  int warps() const { return threads() / warp_size; }

  /// All threads of the block meet here. A diverged barrier ends the run with an error.
  void sync(int line = __builtin_LINE()) { schedule_.meet(thread_, detail::host_schedule::waits_for::block, line); }
  void sync_warp(int line = __builtin_LINE()) { schedule_.meet(thread_, detail::host_schedule::waits_for::warp, line); }

  /// The value that lane `from` of this warp has. All lanes of the warp take part.
  template <class V>
  V shuffle(V value, int from, int line = __builtin_LINE()) {
    static_assert(sizeof(V) <= 16 && std::is_trivially_copyable_v<V>);
    std::memcpy(schedule_.slot(thread_, parity_), &value, sizeof(V));
    sync_warp(line);
    std::memcpy(&value, schedule_.slot(warp() * warp_size + from % warp_size, parity_), sizeof(V));
    parity_ ^= 1;
    return value;
  }
  template <class V>
  V shuffle_xor(V value, int mask, int line = __builtin_LINE()) {
    return shuffle(value, lane() ^ mask, line);
  }
  /// Bit i: whether lane i of this warp says yes.
  std::uint32_t ballot(bool yes, int line = __builtin_LINE()) {
    std::uint32_t votes = yes ? std::uint32_t{1} << lane() : 0;
    for (int mask = 1; mask < warp_size; mask *= 2) votes |= shuffle_xor(votes, mask, line);
    return votes;
  }

  /// The block's shared memory; a kernel divides it itself.
  template <class T>
  T* shared() const {
    return reinterpret_cast<T*>(schedule_.shared.get());
  }
  template <class T>
  void atomic_add(T* to, T value) const {
    *to += value;
  }

  template <int N, class T>
  pack<T, N> load(const T* from) const {
    pack<T, N> out;
    check_alignment<N>(from);
    std::memcpy(static_cast<void*>(&out), from, sizeof(out));
    return out;
  }
  template <class T, int N>
  void store(T* to, const pack<T, N>& from) const {
    check_alignment<N>(to);
    std::memcpy(static_cast<void*>(to), &from, sizeof(from));
  }

  template <class T>
  static accumulate_t<T> widen(T x) {
    return static_cast<accumulate_t<T>>(x);
  }
  /// Rounded once, to nearest.
  template <class T, class A>
  static T narrow(A x) {
    return static_cast<T>(x);
  }
  template <class A>
  static A exp(A x) {
    return std::exp(x);
  }
  template <class A>
  static A log(A x) {
    return std::log(x);
  }
  template <class A>
  static A sqrt(A x) {
    return std::sqrt(x);
  }
  template <class A>
  static A abs(A x) {
    return std::fabs(x);
  }
  template <class A>
  static A tanh(A x) {
    return std::tanh(x);
  }
  template <class A>
  static A erfc(A x) {
    return std::erfc(x);
  }
  /// x * y + z, rounded once.
  template <class A>
  static A fma(A x, A y, A z) {
    return std::fma(x, y, z);
  }

 private:
  template <int N, class T>
  static void check_alignment(const T* p) {
    require(reinterpret_cast<std::uintptr_t>(p) % (N * sizeof(T)) == 0, "a load or store of ", N,
            " elements at once is not aligned to ", N * sizeof(T), " bytes");
  }
  detail::host_schedule& schedule_;
  int thread_;
  int parity_ = 0;
};

/// Runs a kernel on the host. Throws what its body throws, and weft::failure for a barrier that not all threads reach.
template <class Kernel>
void run_on_host(const host_launch& launch, const Kernel& kernel) {
  require(launch.threads >= warp_size && launch.threads <= 1024 && launch.threads % warp_size == 0,
          "a block has 32, 64, ... 1024 threads, not ", launch.threads);
  if (launch.blocks <= 0) return;
  detail::host_schedule schedule(launch);
  schedule.run([&](int i) {
    host_block block(schedule, i);
    do kernel(block);
    while (schedule.next_block(i));
  });
}

}  // namespace weft::cuda
