// Whether an object still lives, for those who keep its address: asked without touching its memory, which may be
// another's by then. Invariant: no two objects ever have the same record and number.
#pragma once

#include <weft/core/requirements.hpp>

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <vector>

#include <weft/core/error.hpp>

namespace weft {
namespace detail {

struct thread_names {
  char names[64] = {};  // their addresses, of which no other thread has any
  int launches = 0;     // how many, one within the other, run on the thread
};
inline thread_names& own_names() {
  static thread_local constinit thread_names own;
  return own;
}
/// Names the thread, or the rank that it runs.
inline const void* this_thread() {
  const thread_names& own = own_names();
  return own.names + own.launches;
}
/// For its life the thread runs a rank of a launch, by another name than what is around.
class rank_of_thread {
 public:
  rank_of_thread() {
    require(own_names().launches < 63, "a launch within more than 62 others");
    ++own_names().launches;
  }
  ~rank_of_thread() { --own_names().launches; }
  rank_of_thread(const rank_of_thread&) = delete;
  rank_of_thread& operator=(const rank_of_thread&) = delete;
};

struct life_record {
  std::atomic<std::uint64_t> number{0};  // of the object that has it; 0: none
  std::atomic<const void*> thread{nullptr};
};

/// Records are used again and never freed, so that they can be asked at any time; there are as many as objects lived at
/// once.
class life_records {
 public:
  static life_records& all() {
    static life_records* const made = new life_records;  // outlives what is static
    return *made;
  }
  WEFT_LINKED life_record& take() {
    const std::lock_guard guard(lock_);
    if (free_.empty()) free_.push_back(&records_.emplace_back());
    life_record& r = *free_.back();
    free_.pop_back();
    r.thread = this_thread();
    r.number = ++count_;
    return r;
  }
  void give_back(life_record& r) {
    const std::lock_guard guard(lock_);
    r.number = 0;
    free_.push_back(&r);
  }

 private:
  std::mutex lock_;
  std::list<life_record> records_;
  std::vector<life_record*> free_;
  std::uint64_t count_ = 0;
};

}  // namespace detail

/// A member of an object that others watch.
class lifetime {
 public:
  lifetime() : record_(detail::life_records::all().take()), number_(record_.number) {}
  ~lifetime() { detail::life_records::all().give_back(record_); }
  lifetime(const lifetime&) = delete;
  lifetime& operator=(const lifetime&) = delete;

 private:
  friend class watch;
  detail::life_record& record_;
  std::uint64_t number_;
};

/// Of one object: whether it still lives, and was made by the thread that asks.
class watch {
 public:
  watch() = default;
  explicit watch(const lifetime& of) : record_(&of.record_), number_(of.number_) {}

  bool alive() const { return record_ && record_->number.load(std::memory_order_relaxed) == number_; }
  bool of_this_thread() const { return record_->thread.load(std::memory_order_relaxed) == detail::this_thread(); }
  explicit operator bool() const { return record_ != nullptr; }
  friend bool operator==(const watch&, const watch&) = default;

 private:
  const detail::life_record* record_ = nullptr;
  std::uint64_t number_ = 0;
};

}  // namespace weft
