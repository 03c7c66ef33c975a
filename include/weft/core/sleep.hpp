// Sleeping until an atomic word changes. It is std::atomic's wait and notify_all, except where libstdc++ has no futex
// to build them on (Windows): there its waiter looks at the word before it takes the lock, so that a change in between
// goes unnoticed, and ranks sleep for ever. Invariant: whoever changes the word and then wakes, wakes all that sleep on
// it.
#pragma once

#include <weft/core/requirements.hpp>

#include <atomic>

#if defined(__GLIBCXX__) && !defined(_GLIBCXX_HAVE_PLATFORM_WAIT)
#define WEFT_DETAIL_SLEEP_BY_LOCK
#include <condition_variable>
#include <cstdint>
#include <mutex>
#endif

namespace weft::detail {

#if defined(WEFT_DETAIL_SLEEP_BY_LOCK)
struct wait_queue {
  std::mutex mutex;
  std::condition_variable changed;
};
/// Where sleepers on an address meet; words may share one.
inline wait_queue& wait_queue_of(const void* word) {
  static wait_queue all[16];
  return all[(reinterpret_cast<std::uintptr_t>(word) >> 6) % 16];
}
#endif

/// Returns when `word` is no longer `old`.
template <class Word>
void sleep_while(const std::atomic<Word>& word, Word old, std::memory_order order) {
#if defined(WEFT_DETAIL_SLEEP_BY_LOCK)
  wait_queue& here = wait_queue_of(&word);
  std::unique_lock lock(here.mutex);
  here.changed.wait(lock, [&] { return word.load(order) != old; });
#else
  word.wait(old, order);
#endif
}

/// To be called after `word` has changed.
template <class Word>
void wake_sleepers(std::atomic<Word>& word) {
#if defined(WEFT_DETAIL_SLEEP_BY_LOCK)
  wait_queue& here = wait_queue_of(&word);
  { const std::lock_guard seen(here.mutex); }  // a sleeper that saw the old word is asleep by now
  here.changed.notify_all();
#else
  word.notify_all();
#endif
}

}  // namespace weft::detail
