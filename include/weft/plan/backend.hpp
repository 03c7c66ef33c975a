// The backend of a plan: no kernel computes, and tensors lie at addresses that no page has.
// Invariant: nothing that it was given is ever read or written, so a program that touches a tensor's memory by another
// way than a backend's kernels ends there.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>

#include <weft/backend/cpu.hpp>

namespace weft {
namespace detail {

/// Where the addresses of plans begin: above all that a system of 64 bits gives to a process.
inline constexpr std::uintptr_t planned_begin = std::uintptr_t{1} << 58;
inline bool is_planned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) >= planned_begin; }

inline void* planned_chunk(std::size_t bytes) {
  static std::atomic<std::uintptr_t> next{planned_begin};
  return reinterpret_cast<void*>(next.fetch_add(bytes));
}

/// What of the CPU's scratch its kernels would take, of a rank with so many threads.
class planned_scratch {
 public:
  /// 0 threads: of another backend, of which nothing is known.
  explicit planned_scratch(int threads) : threads_(threads) {}
  int threads() const { return threads_; }
  void join(const cpu::scratch_need& call) { most_.join(call); }
  std::optional<std::size_t> bytes() const { return threads_ > 0 ? std::optional(most_.kept(threads_)) : std::nullopt; }

 private:
  int threads_;
  cpu::scratch_need most_;
};

/// The kernels that take no scratch, and some of those that do, which planned_backend hides.
template <class Queue>
struct planned_kernels {
#define WEFT_DETAIL_KERNEL(name) \
  template <class... Args>       \
  static void name(Queue&, const Args&...) {}
#include <weft/backend/kernel_names.inl>
  WEFT_DETAIL_KERNEL(copy)
  WEFT_DETAIL_KERNEL(copy_bytes)
  WEFT_DETAIL_KERNEL(upload)
  WEFT_DETAIL_KERNEL(convert)
  WEFT_DETAIL_KERNEL(zero)
  WEFT_DETAIL_KERNEL(fill)
#undef WEFT_DETAIL_KERNEL

  template <unary, class T>
  static void apply(Queue&, std::int64_t, const T*, T*) {}
  template <unary, class T>
  static void apply_backward(Queue&, std::int64_t, const T*, const T*, T*, bool) {}
};

/// The queue of a plan: it runs nothing.
struct planned_queue {
  static constexpr bool runs_behind = false;
  template <class F>
  void enqueue(F&&) {}
  void synchronize() {}
  std::optional<std::size_t> scratch_bytes() const { return scratch.bytes(); }
  bool copies_beside() const { return copies; }

  // Copies of the optimizer's state, and of activations, beside kernels.
  struct event {};
  std::unique_ptr<planned_queue> beside() const { return std::make_unique<planned_queue>(); }
  void record(event&) {}
  void wait(const event&) {}
  void copy_pinned(const void*, void*, std::size_t) {}

  planned_scratch scratch{0};
  bool copies = false;  // whether the backend that is planned has such
};

}  // namespace detail

/// Every kernel returns at once; of those that take scratch on the CPU, the queue notes how much. Numbers that the host
/// asks for are 1, so that a loss, a norm and a count are numbers.
struct planned_backend : detail::planned_kernels<detail::planned_queue> {
  using queue = detail::planned_queue;

  /// A launch's ranks would read what isn't there.
  static std::shared_ptr<queue> open(int /*ranks*/, int /*rank*/, int /*threads*/) {
    fail("a plan's strategy is not launched: planned_rank<S>(degrees, rank) has its context, and launch<S> takes S");
  }
  static constexpr bool host_memory = false;
  static constexpr bool computes = false;  // so that the host makes no numbers for it
  static memory_source memory() {
    return {detail::planned_chunk, [](void*) {}};
  }
  static memory_source pinned_memory() { return memory(); }

#define WEFT_DETAIL_KERNEL(name)                                                                        \
  template <class... Args>                                                                              \
  static void name(queue& q, const Args&... args) {                                                     \
    if (const int threads = q.scratch.threads()) q.scratch.join(cpu::name##_scratch(threads, args...)); \
  }
  WEFT_DETAIL_KERNEL(matmul)
  WEFT_DETAIL_KERNEL(softmax)
  WEFT_DETAIL_KERNEL(rms_norm_backward)
  WEFT_DETAIL_KERNEL(layer_norm_backward)
  WEFT_DETAIL_KERNEL(attention)
  WEFT_DETAIL_KERNEL(attention_backward)
  WEFT_DETAIL_KERNEL(embedding_backward)
  WEFT_DETAIL_KERNEL(sum_of_squares)
#undef WEFT_DETAIL_KERNEL
  template <reduce Kind, class... Args>
  static void reduce_dims(queue& q, const Args&... args) {
    if (const int threads = q.scratch.threads()) q.scratch.join(cpu::reduce_dims_scratch<Kind>(threads, args...));
  }

  template <class T>
  static array_statistics statistics(queue&, std::int64_t n, const T*) {
    return {.squares = 1, .lowest = 1, .highest = 1, .elements = n};
  }
  template <class T>
  static std::int64_t zero_not_finite(queue&, std::int64_t, T*) {
    return 0;
  }
  template <class T>
  static void download(queue&, const void*, T* host, std::int64_t bytes) {
    std::fill_n(host, bytes / static_cast<std::int64_t>(sizeof(T)), static_cast<T>(1.0f));
  }
};

}  // namespace weft
