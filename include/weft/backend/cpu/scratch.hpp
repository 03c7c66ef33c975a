// Per-thread scratch memory for kernels: a stack that grows until it has seen the largest need, then never allocates.
// Invariant: buffers of one thread are released in the reverse order of their making (they are scoped objects).
#pragma once

#include <cstddef>
#include <new>
#include <utility>

#include <weft/core/linked.hpp>

#if defined(__MINGW32__)
#include <pthread.h>
#endif

namespace weft::cpu {

namespace detail {

/// A chain of blocks used as a stack. When the stack is empty and has more than one block, they are merged into one.
class scratch_stack {
 public:
  scratch_stack() = default;
  scratch_stack(const scratch_stack&) = delete;
  scratch_stack& operator=(const scratch_stack&) = delete;
  ~scratch_stack() {
    while (top_) drop();
  }

  void* push(std::size_t bytes) {
    if (!top_ || top_->size - top_->used < bytes) grow(bytes);
    void* at = reinterpret_cast<std::byte*>(top_) + sizeof(block) + top_->used;
    top_->used += bytes;
    return at;
  }
  void pop(std::size_t bytes) {
    top_->used -= bytes;
    if (top_->used != 0) return;
    if (top_->below && top_->below->used != 0) {  // keep the size in mind, give the block back
      drop();
      return;
    }
    while (top_ && top_->below) drop();
    if (top_ && top_->size < wanted_) drop();  // the next push makes one block large enough for all
  }
  /// The most that was ever in use at once.
  std::size_t wanted() const { return wanted_; }
  /// Of a stack that is empty: from now on it has so much without asking for more.
  void reserve(std::size_t bytes) {
    if (bytes <= kept_) return;
    while (top_) drop();
    grow(bytes);
  }
  std::size_t reserved() const {
    std::size_t bytes = 0;
    for (block* b = top_; b; b = b->below) bytes += b->size;
    return bytes;
  }

 private:
  struct alignas(64) block {
    block* below;
    std::size_t size, used;
  };

  WEFT_LINKED void grow(std::size_t bytes) {
    std::size_t held = 0;
    for (block* b = top_; b; b = b->below) held += b->used;
    if (held + bytes > wanted_) wanted_ = held + bytes;
    const std::size_t size = held == 0 ? wanted_ : bytes;
    if (top_ && top_->used == 0) drop();
    void* memory = ::operator new (sizeof(block) + size, std::align_val_t{64});
    if (!top_) kept_ = size;
    top_ = new (memory) block{top_, size, 0};
  }
  void drop() {
    block* below = top_->below;
    ::operator delete (static_cast<void*>(top_), std::align_val_t{64});
    top_ = below;
    if (!top_) kept_ = 0;
  }

  block* top_ = nullptr;
  std::size_t wanted_ = 0;
  std::size_t kept_ = 0;  // the lowest block's size: what an empty stack has
};

/// The calling thread's own stack.
inline scratch_stack& own_scratch() {
#if defined(__MINGW32__)  // there, the memory of a thread_local object goes before its destructor runs (GCC bug 80816)
  static const pthread_key_t key = [] {
    pthread_key_t made;
    pthread_key_create(&made, [](void* stack) { delete static_cast<scratch_stack*>(stack); });
    return made;
  }();
  thread_local scratch_stack* own = nullptr;
  if (!own) pthread_setspecific(key, own = new scratch_stack);
  return *own;
#else
  thread_local scratch_stack own;
  return own;
#endif
}
/// The stack that the calling thread uses: its own, unless a team has given it another.
inline scratch_stack*& this_thread_scratch() {
  thread_local scratch_stack* used = &own_scratch();
  return used;
}

/// Gives the calling thread another stack for the life of the object.
class using_stack {
 public:
  explicit using_stack(scratch_stack& stack) : before_(std::exchange(this_thread_scratch(), &stack)) {}
  ~using_stack() { this_thread_scratch() = before_; }
  using_stack(const using_stack&) = delete;
  using_stack& operator=(const using_stack&) = delete;

 private:
  scratch_stack* before_;
};

}  // namespace detail

/// A 64-byte aligned, uninitialised buffer of the calling thread, for the life of this object (make it a local
/// variable). Nests freely; other threads may use the memory as long as the object lives.
class scratch {
 public:
  explicit scratch(std::size_t bytes)
      : stack_(*detail::this_thread_scratch()), bytes_((bytes + 63) / 64 * 64), data_(stack_.push(bytes_)) {}
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  ~scratch() { stack_.pop(bytes_); }

  void* data() const { return data_; }
  /// The buffer as an array of T.
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

  /// Bytes that the calling thread keeps for scratch.
  static std::size_t reserved() { return detail::this_thread_scratch()->reserved(); }

 private:
  detail::scratch_stack& stack_;
  std::size_t bytes_;
  void* data_;
};

}  // namespace weft::cpu
