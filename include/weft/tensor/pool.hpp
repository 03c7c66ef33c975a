// The pool: host memory for a rank's own records (slots of gradients, entries of tapes), in pieces that are used again.
// Invariant: a piece that is given back is the next of its size to be taken, so that what repeats itself, as training
// steps do, asks the heap only at first. A pool belongs to one rank, is used from its thread only, and outlives its
// pieces.
#pragma once

#include <weft/core/requirements.hpp>

#include <bit>
#include <cstddef>
#include <new>
#include <utility>

namespace weft {

class pool {
 public:
  pool() = default;
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;
  ~pool() {
    for (piece*& first : free_)
      while (first) ::operator delete(std::exchange(first, first->next));
  }

  /// At least `bytes`, aligned as by operator new.
  void* allocate(std::size_t bytes) {
    piece*& first = free_[bin_of(bytes)];
    return first ? std::exchange(first, first->next) : ::operator new (std::size_t{1} << bin_of(bytes));
  }
  /// Takes back what allocate(bytes) gave.
  void release(void* at, std::size_t bytes) noexcept {
    piece*& first = free_[bin_of(bytes)];
    first = new (at) piece{first};
  }

 private:
  struct piece {
    piece* next;
  };
  // Sizes are powers of two, of 64 bytes at least.
  static int bin_of(std::size_t bytes) { return bytes <= 64 ? 6 : static_cast<int>(std::bit_width(bytes - 1)); }

  piece* free_[64] = {};
};

/// Lets a standard container take its memory from a pool; from the heap where that is null.
template <class T>
struct pool_allocator {
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  pool* from = nullptr;

  pool_allocator() = default;
  explicit pool_allocator(pool* p) : from(p) {}
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
