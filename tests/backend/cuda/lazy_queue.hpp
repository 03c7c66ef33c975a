// The CUDA kernels on the host (host_queue.hpp) behind queues that run as late as their waits permit: nothing until the
// host waits for a queue, and of another queue no more than the event that is waited for. So a wait that is missing is
// read as a wrong number. And a backend of several ranks made of them, whose memory is told from the host's.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>

#include <weft/backend/cuda/staging.hpp>
#include <weft/backend/cuda/stream_mover.hpp>

#include "host_queue.hpp"

namespace weft_test {

using weft_test::host_queue;

/// What a device has given out. Copies within the device, and folds, take no other memory.
class pretended_memory {
 public:
  static weft::memory_source source() { return {allocate, release}; }
  static void require_inside(const void* at, std::size_t bytes) {
    const std::lock_guard lock(mutex());
    const std::byte* const first = static_cast<const std::byte*>(at);
    const auto behind = chunks().upper_bound(first);
    const auto chunk = behind == chunks().begin() ? behind : std::prev(behind);
    weft::require(chunk != behind && first + bytes <= chunk->first + chunk->second,
                  "a device copies what isn't in its memory");
  }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::map<const std::byte*, std::size_t>& chunks() {
    static std::map<const std::byte*, std::size_t> all;
    return all;
  }
  static void* allocate(std::size_t bytes) {
    void* const chunk = weft::memory_source{}.allocate(bytes);
    const std::lock_guard lock(mutex());
    if (chunk) chunks()[static_cast<const std::byte*>(chunk)] = bytes;
    return chunk;
  }
  static void release(void* chunk) {
    {
      const std::lock_guard lock(mutex());
      chunks().erase(static_cast<const std::byte*>(chunk));
    }
    weft::memory_source{}.release(chunk);
  }
};

class lazy_queue : public weft::gpu::pinned_count {
  // What was given and has still to run; others run it too, up to what they wait for.
  struct work {
    void run_until(std::uint64_t number) {
      std::unique_lock lock(mutex);
      while (run < number) {
        if (busy) {
          moved.wait(lock);
          continue;
        }
        const std::function<void()> next = std::move(given.front());
        given.pop_front();
        busy = true;
        lock.unlock();
        std::exception_ptr thrown;
        try {
          next();
        } catch (...) {
          thrown = std::current_exception();
        }
        lock.lock();
        busy = false, ++run;
        moved.notify_all();
        if (thrown) std::rethrow_exception(thrown);
      }
    }
    std::mutex mutex;
    std::condition_variable moved;
    std::deque<std::function<void()>> given;
    std::uint64_t all = 0, run = 0;
    bool busy = false;
  };

 public:
  static constexpr int block_threads = host_queue::block_threads;
  static constexpr bool runs_behind = true;

  class event {
   public:
    event() : at_(std::make_unique<point>()) {}
    bool happened() const {
      synchronize();  // who polls lets it go on
      return true;
    }
    void synchronize() const {
      const auto [of, number] = last();
      if (of) of->run_until(number);
    }

   private:
    friend class lazy_queue;
    struct point {
      std::mutex mutex;
      std::shared_ptr<work> of;
      std::uint64_t number = 0;
    };
    std::pair<std::shared_ptr<work>, std::uint64_t> last() const {
      const std::lock_guard lock(at_->mutex);
      return {at_->of, at_->number};
    }
    std::unique_ptr<point> at_;
  };

  /// hasty: it runs what it is given at once, and what of others it has to wait for.
  explicit lazy_queue(std::uint64_t seed = 1, bool hasty = false)
      : on_host_(std::make_shared<host_queue>(seed)), hasty_(hasty) {}
  lazy_queue(const lazy_queue&) = delete;
  lazy_queue& operator=(const lazy_queue&) = delete;
  ~lazy_queue() { work_->run_until(work_->all); }

  std::int64_t resident_blocks() const { return on_host_->resident_blocks(); }
  std::size_t block_memory() const { return on_host_->block_memory(); }
  template <class Kernel>
  void start(std::int64_t blocks, std::size_t shared_bytes, const Kernel& kernel) {
    if constexpr (requires { kernel.in, kernel.out, kernel.ranks; })
      for (int r = 0; r < kernel.ranks; ++r) {
        pretended_memory::require_inside(kernel.in[r], sizeof(*kernel.in[r]));
        pretended_memory::require_inside(kernel.out[r], sizeof(*kernel.out[r]));
      }
    give([=, q = on_host_] { q->start(blocks, shared_bytes, kernel); });
  }
  bool multiply(const weft::matmul_shape& size, weft::dtype in, weft::dtype out_type, const weft::gpu::blas_product& p,
                const void* first, const void* second, void* out, bool accumulate, const weft::matmul_epilogue& after) {
    give([=, q = on_host_] { q->multiply(size, in, out_type, p, first, second, out, accumulate, after); });
    return true;
  }
  void* scratch(std::size_t bytes) {
    scratch_.emplace_back(new std::byte[bytes]);
    give([to = scratch_.back().get(), bytes] { std::memset(to, 0xff, bytes); });
    return scratch_.back().get();
  }
  template <class Key>
  static std::size_t sort_bytes(std::int64_t, weft::gpu::key_bits) {
    return 256;
  }
  template <class Key>
  void sort(const Key* keys, Key* sorted, std::int64_t count, weft::gpu::key_bits by, void* beside, std::size_t bytes) {
    give([=, q = on_host_] { q->sort(keys, sorted, count, by, beside, bytes); });
  }
  static std::size_t row_least_bytes(std::int64_t, std::int64_t) { return 256; }
  void row_least(std::int64_t rows, std::int64_t width, const std::uint64_t* keys, std::uint64_t* least, void* beside,
                 std::size_t bytes) {
    give([=, q = on_host_] { q->row_least(rows, width, keys, least, beside, bytes); });
  }
  template <class Value>
  static std::size_t running_sum_bytes(std::int64_t) {
    return 256;
  }
  template <class Value>
  void running_sum(std::int64_t n, const Value& value, std::int64_t* sums, void* beside, std::size_t bytes) {
    give([=, q = on_host_] { q->running_sum(n, value, sums, beside, bytes); });
  }
  void copy(const void* from, void* to, std::size_t bytes) {
    pretended_memory::require_inside(from, bytes);
    pretended_memory::require_inside(to, bytes);
    give([=] { std::memcpy(to, from, bytes); });
  }
  void zero(void* to, std::size_t bytes) {
    give([=] { std::memset(to, 0, bytes); });
  }
  void upload(const void* from, void* to, std::size_t bytes) {
    if (uploads_.upload(*this, from, to, bytes)) return;
    copy_pinned(from, to, bytes);
    synchronize();
  }
  void download(const void* from, void* to, std::size_t bytes) {
    downloaded += bytes;
    copy_pinned(from, to, bytes);
    synchronize();
  }
  using pinned = std::unique_ptr<std::byte[]>;
  static pinned pinned_memory(std::size_t bytes) { return std::make_unique<std::byte[]>(bytes); }
  void copy_pinned(const void* from, void* to, std::size_t bytes) {
    give([=] { std::memcpy(to, from, bytes); });
  }
  using landing = weft::gpu::landing<lazy_queue>;
  template <class F>
  void enqueue(F f) {
    give([held = std::make_shared<F>(std::move(f))] { (*held)(); });
  }
  void synchronize() {
    ++waits;
    work_->run_until(work_->all);
    scratch_.clear();
  }

  std::unique_ptr<lazy_queue> beside() const { return std::make_unique<lazy_queue>(7, hasty_beside); }
  void record(event& e) {
    const std::lock_guard lock(e.at_->mutex);
    const std::lock_guard own(work_->mutex);
    e.at_->of = work_, e.at_->number = work_->all;
  }
  void wait(const event& e) {
    const auto [of, number] = e.last();
    if (of) give([of = of, number = number] { of->run_until(number); });
  }
  std::unique_ptr<weft::device_mover> mover(int members) {
    return std::make_unique<weft::gpu::stream_mover<lazy_queue>>(*this, members);
  }

  int waits = 0;               // of the host, for all that was given
  std::size_t downloaded = 0;  // bytes
  bool hasty_beside = false;
  std::uint64_t to_come() const {
    const std::lock_guard lock(work_->mutex);
    return work_->all - work_->run;
  }

 private:
  void give(std::function<void()> next) {
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(work_->mutex);
      work_->given.push_back(std::move(next));
      number = ++work_->all;
    }
    if (hasty_) work_->run_until(number);
  }

  std::shared_ptr<host_queue> on_host_;
  bool hasty_;
  std::shared_ptr<work> work_ = std::make_shared<work>();
  std::deque<std::unique_ptr<std::byte[]>> scratch_;
  weft::gpu::staged_uploads<event, pinned> uploads_;
};

struct lazy_cuda_backend : weft::gpu::device_kernels<lazy_queue> {
  static std::shared_ptr<queue> open(int, int rank, int) {
    return std::make_shared<queue>(static_cast<std::uint64_t>(rank) * 1000003 + 1);
  }
  static constexpr bool host_memory = false;
  static weft::memory_source memory() { return pretended_memory::source(); }
  static weft::memory_source pinned_memory() { return {}; }
};

}  // namespace weft_test
