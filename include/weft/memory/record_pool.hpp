// The pool: host memory for a rank's own records (slots of gradients, entries of tapes), in pieces that are used again.
// Invariant: a piece that is given back is the next of its size to be taken, so that what repeats itself, as training
// steps do, asks the heap only at first. A pool belongs to one rank and is used from its thread only; pieces may
// outlive it.
#pragma once

#include <weft/core/requirements.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace weft {

namespace detail {

/// The pieces. They may outlive the pool, and then go back to the heap, the last of them with what keeps count.
class pool_pieces {
 public:
  void* allocate(std::size_t bytes) {
    ++held_;
    piece*& first = free_[bin_of(bytes)];
    return first ? std::exchange(first, first->next) : ::operator new (std::size_t{1} << bin_of(bytes));
  }
  void release(void* at, std::size_t bytes) noexcept {
    --held_;
    if (ended_) {
      ::operator delete(at);
      return end();
    }
    piece*& first = free_[bin_of(bytes)];
    first = new (at) piece{first};
  }
  /// The pool ended, or a piece was given back after that.
  void end() noexcept {
    ended_ = true;
    for (piece*& first : free_)
      while (first) ::operator delete(std::exchange(first, first->next));
    if (held_ == 0) delete this;
  }

 private:
  struct piece {
    piece* next;
  };
  // Sizes are powers of two, of 64 bytes at least.
  static int bin_of(std::size_t bytes) { return bytes <= 64 ? 6 : static_cast<int>(std::bit_width(bytes - 1)); }

  piece* free_[64] = {};
  std::int64_t held_ = 0;
  bool ended_ = false;
};

}  // namespace detail

class record_pool {
 public:
  record_pool() = default;
  record_pool(const record_pool&) = delete;
  record_pool& operator=(const record_pool&) = delete;
  ~record_pool() { pieces_->end(); }

  /// At least `bytes`, aligned as by operator new.
  void* allocate(std::size_t bytes) { return pieces_->allocate(bytes); }
  /// Takes back what allocate(bytes) gave.
  void release(void* at, std::size_t bytes) noexcept { pieces_->release(at, bytes); }
  /// For who may have to give pieces back when the pool has ended.
  detail::pool_pieces* pieces() const { return pieces_; }

 private:
  detail::pool_pieces* pieces_ = new detail::pool_pieces;
};

/// Lets a standard container take its memory from a pool; from the heap where that is null.
template <class T>
struct pool_allocator {
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  detail::pool_pieces* from = nullptr;

  pool_allocator() = default;
  explicit pool_allocator(record_pool* p) : from(p ? p->pieces() : nullptr) {}
  template <class U>
  pool_allocator(const pool_allocator<U>& other) : from(other.from) {}

  T* allocate(std::size_t n) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    return static_cast<T*>(from ? from->allocate(n * sizeof(T)) : ::operator new(n * sizeof(T)));
  }
  void deallocate(T* at, std::size_t n) noexcept {
    if (from)
      from->release(at, n * sizeof(T));
    else
      ::operator delete(at);
  }
  friend bool operator==(const pool_allocator&, const pool_allocator&) = default;
};

}  // namespace weft
