// The host's execution context: runs a kernel's blocks one after another, a fiber for each of a block's threads, so
// that kernels can be tested without a GPU. Invariant: a body sees what it would on a GPU; whose turn it is, is said
// by its schedule.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <weft/backend/cuda/host_schedule.hpp>

namespace weft::gpu {

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
    give(value, line);
    value = taken<V>(from % warp_size);
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

  /// c += a b, where c is [16, 8]: lane 4 g + t has columns (2t, 2t + 1) of row g, then of row g + 8; and b is [16, 8]:
  /// b0 has rows (2t, 2t + 1) of column g, b1 rows (2t + 8, 2t + 9). T: bf16 or fp16. Here products are exact, and
  /// added in order; a GPU has an order of its own, and may cut each sum off instead of rounding it.
  template <class T>
  void mma(float (&c)[4], const fragment& a, std::uint32_t b0, std::uint32_t b1, int line = __builtin_LINE()) {
    struct given {
      fragment a;
      std::uint32_t b[2];
    };
    give(given{a, {b0, b1}}, line);
    const auto element = [](std::uint32_t pair, int which) {
      return widen(T::from_bits(static_cast<std::uint16_t>(pair >> (16 * which))));
    };
    for (int at = 0; at < 4; ++at) {
      const int row = lane() / 4, column = lane() % 4 * 2 + at % 2;
      for (int k = 0; k < 16; ++k) {
        const given left = taken<given>(row * 4 + k % 8 / 2), right = taken<given>(column * 4 + k % 8 / 2);
        c[at] += element(left.a.at[at / 2 + k / 8 * 2], k % 2) * element(right.b[k / 8], k % 2);
      }
    }
    parity_ ^= 1;
  }
  /// Four [8, 8] matrices of 16-bit numbers in shared memory, one in each of `at`: lane i points to row i % 8 of matrix
  /// i / 8, 16 bytes, and gets columns (2t, 2t + 1) of row g of each; transposed, rows (2t, 2t + 1) of column g.
  template <bool Transposed, class T>
  fragment load_matrices(const T* row, int line = __builtin_LINE()) {
    check_alignment<8>(row);
    give(row, line);
    const int g = lane() / 4, t = lane() % 4;
    fragment out;
    for (int m = 0; m < 4; ++m) {
      std::uint32_t pair[2];
      for (int i = 0; i < 2; ++i)
        pair[i] = Transposed ? taken<const T*>(m * 8 + 2 * t + i)[g].bits : taken<const T*>(m * 8 + g)[2 * t + i].bits;
      out.at[m] = pair[0] | pair[1] << 16;
    }
    parity_ ^= 1;
    return out;
  }
  /// Copies N elements, 4, 8 or 16 bytes, into shared memory, or zeros where they aren't `there`. They are there once
  /// this thread has waited for the copies that it has ended a group with, and other threads have met it since; but
  /// they may come at any time before. Here every second copy comes at once, and the others when they are waited for.
  template <int N, class T>
  void copy_later(T* to, const T* from, bool there) {
    check_alignment<N>(to);
    if (there) check_alignment<N>(from);
    const later_copy copy{to, there ? from : nullptr, N * sizeof(T)};
    if ((copies_++ + thread_) % 2)
      copy.run();
    else
      later_.push_back(copy);
  }
  void end_copies() { groups_.push_back(later_.size()); }
  /// Waits for all groups of copies but the last `Left`.
  template <int Left>
  void wait_for_copies() {
    const std::size_t left = static_cast<std::size_t>(Left);
    const std::size_t done = groups_.size() > left ? groups_[groups_.size() - left - 1] : 0;
    for (std::size_t i = 0; i < done; ++i) later_[i].run();
    later_.erase(later_.begin(), later_.begin() + static_cast<std::ptrdiff_t>(done));
    if (groups_.size() > left) groups_.erase(groups_.begin(), groups_.end() - Left);
    for (std::size_t& g : groups_) g -= done;
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
  /// The same of 16 bytes, which a GPU stores in one request.
  template <class T, int N>
  void store_whole(T* to, const pack<T, N>& from) const {
    static_assert(sizeof(from) == 16);
    store(to, from);
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
  /// x, of which a compiler doesn't know that it is x: what is made of it is made again, and not kept in registers.
  static int anew(int x) { return x; }
  /// Both rounded to T, `low` in the lower half.
  template <class T>
  static std::uint32_t narrow_pair(float low, float high) {
    return std::uint32_t{narrow<T>(low).bits} | std::uint32_t{narrow<T>(high).bits} << 16;
  }
  template <class A>
  static A exp(A x) {
    return std::exp(x);
  }
  /// To some 2^-21, relatively: for what is then rounded to 16 bits.
  static float fast_exp(float x) { return std::exp(x); }
  static float fast_exp2(float x) { return std::exp2(x); }
  static float larger(float x, float y) { return std::fmax(x, y); }  // of a NaN and a number, the number
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
  static float rounded_product(float x, float y) {
    volatile float product = x * y;
    return product;
  }
  template <class A>
  static A fma(A x, A y, A z) {
    return std::fma(x, y, z);
  }

 private:
  struct later_copy {
    void* to;
    const void* from;
    std::size_t bytes;

    void run() const {
      if (from)
        std::memcpy(to, from, bytes);
      else
        std::memset(to, 0, bytes);
    }
  };
  /// Lets the lanes of this warp read `value` with `taken`, until parity_ changes.
  template <class V>
  void give(const V& value, int line) {
    static_assert(sizeof(V) <= detail::host_schedule::slot_bytes && std::is_trivially_copyable_v<V>);
    std::memcpy(schedule_.slot(thread_, parity_), &value, sizeof(V));
    sync_warp(line);
  }
  template <class V>
  V taken(int from) const {
    V value;
    std::memcpy(static_cast<void*>(&value), schedule_.slot(warp() * warp_size + from, parity_), sizeof(V));
    return value;
  }
  template <int N, class T>
  static void check_alignment(const T* p) {
    require(reinterpret_cast<std::uintptr_t>(p) % (N * sizeof(T)) == 0, "a load or store of ", N,
            " elements at once is not aligned to ", N * sizeof(T), " bytes");
  }
  detail::host_schedule& schedule_;
  int thread_;
  int parity_ = 0;
  int copies_ = 0;                   // asked for so far
  std::vector<later_copy> later_;    // copies not yet waited for,
  std::vector<std::size_t> groups_;  // and how many there were when each group ended
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

}  // namespace weft::gpu
