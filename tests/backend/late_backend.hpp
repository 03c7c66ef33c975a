// The CPU's kernels behind a queue that lags as far as can be: a thread that runs what it was given, in order, once the
// host waits for it and not before, and no more than it waits for. So whatever the host reads or writes beside the
// queue is seen. It counts how often the host waits, and what it leaves to come. Invariant: a kernel has its arguments
// by value, and memory that the host has freed is used again by later kernels only.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <weft/backend/cpu.hpp>
#include <weft/core/queue.hpp>

namespace weft_test {

class late_queue {
 public:
  static constexpr bool runs_behind = true;

  explicit late_queue(int threads = 1, int rank = -1) : cores_(threads, rank), thread_([this] { run(); }) {}
  late_queue(const late_queue&) = delete;
  late_queue& operator=(const late_queue&) = delete;
  ~late_queue() {
    {
      const std::lock_guard lock(mutex_);
      if (std::uncaught_exceptions() > 0) given_.clear();  // nobody will read what that would give
      ended_ = go_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  /// f(cores) or f(), when it is its turn.
  template <class F>
  void enqueue(F f) {
    const std::lock_guard lock(mutex_);
    if constexpr (std::is_invocable_v<F&, weft::cpu::team&>)
      given_.push_back([this, f]() mutable { f(cores_); });
    else
      given_.push_back(f);
    ++all_;
    most_ = std::max(most_, given_.size());
  }
  void synchronize() { wait_for(all()); }

  /// Numbers that are on their way to the host.
  class landing {
   public:
    landing(late_queue& q, std::size_t bytes) : queue_(q), bytes_(std::make_shared<std::vector<std::byte>>(bytes)) {}
    void fetch(const void* from) {
      queue_.enqueue([from, to = bytes_] {
        const auto* const at = static_cast<const std::byte*>(from);
        std::copy(at, at + to->size(), to->begin());
      });
      number_ = queue_.all();
    }
    const void* wait() {
      queue_.wait_for(number_);
      return bytes_->data();
    }

   private:
    late_queue& queue_;
    std::shared_ptr<std::vector<std::byte>> bytes_;
    std::uint64_t number_ = 0;
  };

  /// It keeps everything back as it is; so this counts alone, and who waits for something of a graph's.
  void begin_graph() { keeps_back_ = true, before_graph_ = all(); }
  void launch_graph() { graphs_.launches += std::exchange(keeps_back_, false); }
  const weft::graph_counts& graphs() const { return graphs_; }

  /// How often the host waited for something that was to come.
  long waits() const { return waits_; }
  /// How many kernels each of these waits left to come.
  const std::vector<std::size_t>& left() const { return left_; }
  /// How many kernels were to come at once, at most.
  std::size_t most() const { return most_; }
  std::size_t to_come() {
    const std::lock_guard lock(mutex_);
    return given_.size();
  }

 private:
  std::uint64_t all() {
    const std::lock_guard lock(mutex_);
    return all_;
  }
  // For the first `number` of all that was ever given.
  void wait_for(std::uint64_t number) {
    if (keeps_back_ && number > before_graph_) ++graphs_.flushes, launch_graph();
    std::unique_lock lock(mutex_);
    if (all_ - given_.size() < number) {
      ++waits_;
      left_.push_back(static_cast<std::size_t>(all_ - number));
    }
    until_ = number;
    go_ = true;
    wake_.notify_all();
    done_.wait(lock, [&] { return !go_; });
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return go_; });
      while (!given_.empty() && (ended_ || all_ - given_.size() < until_)) {
        const std::function<void()> next = std::move(given_.front());
        given_.pop_front();
        lock.unlock();
        try {
          next();
        } catch (...) {
          thrown_ = std::current_exception();
        }
        lock.lock();
        if (thrown_) given_.clear();
      }
      go_ = false;
      done_.notify_all();
      if (ended_) return;
    }
  }

  bool keeps_back_ = false;
  std::uint64_t before_graph_ = 0;  // given
  weft::graph_counts graphs_;
  weft::cpu::team cores_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<std::function<void()>> given_;
  std::exception_ptr thrown_;
  bool go_ = false, ended_ = false;
  std::uint64_t all_ = 0, until_ = 0;  // given ever, and to run by now
  long waits_ = 0;
  std::vector<std::size_t> left_;
  std::size_t most_ = 0;
  std::thread thread_;
};

/// The kernels that take nothing but numbers, small structures and the backend's pointers.
struct late_kernels {
  using queue = late_queue;
  using cpu = weft::cpu_backend;
#define WEFT_DETAIL_KERNEL(name)                                                         \
  template <class... Args>                                                               \
  static void name(queue& q, const Args&... args) {                                      \
    q.enqueue([args...](weft::cpu::team& cores) mutable { cpu::name(cores, args...); }); \
  }
#include <weft/backend/kernel_names.inl>
  WEFT_DETAIL_KERNEL(convert)
  WEFT_DETAIL_KERNEL(copy_bytes)
#undef WEFT_DETAIL_KERNEL
};

/// All of them. Its memory is the host's, but nothing may know that.
struct late_backend : late_kernels {
  static constexpr bool host_memory = false;
  static weft::memory_source memory() {
    weft::memory_source own;
    own.allocate = [](std::size_t bytes) { return weft::memory_source{}.allocate(bytes); };
    return own;
  }
  static std::shared_ptr<queue> open(int /*ranks*/, int rank, int threads) {
    return std::make_shared<queue>(threads, rank);
  }

  // What lies in the host's memory is copied.
  static void upload(queue& q, const void* host, void* to, std::int64_t bytes) {
    const auto* from = static_cast<const std::byte*>(host);
    q.enqueue([to, held = std::vector<std::byte>(from, from + bytes)](weft::cpu::team& cores) {
      cpu::copy_bytes(cores, held.data(), to, std::ssize(held));
    });
  }
  static void download(queue& q, const void* from, void* host, std::int64_t bytes) {
    copy_bytes(q, from, host, bytes);
    q.synchronize();
  }

  // Arrays are looked at without being held: a handle belongs to the rank's thread.
  static void zero(queue& q, const weft::local_array& y) {
    q.enqueue([v = seen(y)](weft::cpu::team& cores) { cpu::zero(cores, v); });
  }
  static void fill(queue& q, const weft::local_array& y, double number) {
    q.enqueue([v = seen(y), number](weft::cpu::team& cores) { cpu::fill(cores, v, number); });
  }
  static void copy(queue& q, int ndim, const std::int64_t* extents, const weft::local_array& from,
                   const std::int64_t* of_from, const weft::local_array& to, const std::int64_t* of_to) {
    q.enqueue([ndim, e = sizes(ndim, extents), a = seen(from), sa = sizes(ndim, of_from), b = seen(to),
               sb = sizes(ndim, of_to)](weft::cpu::team& cores) {
      cpu::copy(cores, ndim, e.data(), a, sa.data(), b, sb.data());
    });
  }

  template <weft::unary F, class T>
  static void apply(queue& q, std::int64_t n, const T* x, T* y) {
    q.enqueue([=](weft::cpu::team& cores) { cpu::apply<F>(cores, n, x, y); });
  }
  template <weft::unary F, class T>
  static void apply_backward(queue& q, std::int64_t n, const T* x, const T* dy, T* dx, bool add) {
    q.enqueue([=](weft::cpu::team& cores) { cpu::apply_backward<F>(cores, n, x, dy, dx, add); });
  }
  template <class T>
  static void apply(queue& q, weft::binary f, std::int64_t n, const T* a, const T* b, T* y) {
    q.enqueue([=](weft::cpu::team& cores) { cpu::apply(cores, f, n, a, b, y); });
  }
  template <class T>
  static void apply(queue& q, weft::binary f, int ndim, const std::int64_t* extents, const T* a,
                    const std::int64_t* of_a, const T* b, const std::int64_t* of_b, T* y) {
    q.enqueue([=, e = sizes(ndim, extents), sa = sizes(ndim, of_a), sb = sizes(ndim, of_b)](weft::cpu::team& cores) {
      cpu::apply(cores, f, ndim, e.data(), a, sa.data(), b, sb.data(), y);
    });
  }
  template <weft::reduce Kind, class T, class Out>
  static void reduce_dims(queue& q, int ndim, const std::int64_t* extents, const bool* reduced, const T* x, Out* y,
                          bool add) {
    q.enqueue([=, e = sizes(ndim, extents), r = sizes(ndim, reduced)](weft::cpu::team& cores) {
      cpu::reduce_dims<Kind>(cores, ndim, e.data(), r.data(), x, y, add);
    });
  }
  template <class T>
  static void repeat(queue& q, int ndim, const std::int64_t* extents, const bool* reduced, const T* y, T* x, bool add) {
    q.enqueue([=, e = sizes(ndim, extents), r = sizes(ndim, reduced)](weft::cpu::team& cores) {
      cpu::repeat(cores, ndim, e.data(), r.data(), y, x, add);
    });
  }
  template <std::size_t N, class F>
  static void each_row(queue& q, int ndim, const std::int64_t* extents, const std::array<const std::int64_t*, N>& at,
                       F f) {
    q.enqueue([=, e = sizes(ndim, extents), s = strides(ndim, at)](weft::cpu::team& cores) {
      cpu::each_row(cores, ndim, e.data(), pointers(s), f);
    });
  }
  template <std::size_t N, class F>
  static void each_line(queue& q, int ndim, const std::int64_t* extents, const std::array<const std::int64_t*, N>& at,
                        std::int64_t width, F f) {
    q.enqueue([=, e = sizes(ndim, extents), s = strides(ndim, at)](weft::cpu::team& cores) {
      cpu::each_line(cores, ndim, e.data(), pointers(s), width, f);
    });
  }

  // What the host asks for, it waits for.
  template <class T>
  static weft::array_statistics statistics(queue& q, std::int64_t n, const T* x) {
    weft::array_statistics out;
    q.enqueue([=, &out](weft::cpu::team& cores) { out = cpu::statistics(cores, n, x); });
    q.synchronize();
    return out;
  }
  template <class T>
  static std::int64_t zero_not_finite(queue& q, std::int64_t n, T* x) {
    std::int64_t out = 0;
    q.enqueue([=, &out](weft::cpu::team& cores) { out = cpu::zero_not_finite(cores, n, x); });
    q.synchronize();
    return out;
  }

 private:
  static weft::local_array seen(const weft::local_array& x) { return {x.data, x.type, x.shape}; }
  template <class T>
  static std::array<T, weft::max_ndim> sizes(int ndim, const T* from) {
    std::array<T, weft::max_ndim> out{};
    std::copy_n(from, ndim, out.begin());
    return out;
  }
  template <std::size_t N>
  using all_strides = std::array<std::array<std::int64_t, weft::max_ndim>, N>;
  template <std::size_t N>
  static all_strides<N> strides(int ndim, const std::array<const std::int64_t*, N>& at) {
    all_strides<N> out{};
    for (std::size_t i = 0; i < N; ++i) out[i] = sizes(ndim, at[i]);
    return out;
  }
  template <std::size_t N>
  static std::array<const std::int64_t*, N> pointers(const all_strides<N>& s) {
    std::array<const std::int64_t*, N> out{};
    for (std::size_t i = 0; i < N; ++i) out[i] = s[i].data();
    return out;
  }
};

}  // namespace weft_test
