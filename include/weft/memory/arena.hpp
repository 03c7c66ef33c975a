// The arena: the one place a rank's tensors come from, with a ledger by category.
// Invariant: blocks never move; freed neighbours join; memory goes back to the system only when the arena ends, and a
// handle that outlives it has none.
// An arena belongs to one rank and is used from its thread only.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <weft/core/error.hpp>
#include <weft/memory/ledger.hpp>
#include <weft/memory/source.hpp>

namespace weft {

class arena {
  struct block;
  // Records of blocks. Whoever holds a handle when the arena ends has the record yet, without memory.
  struct block_records {
    arena* owner;  // null: ended
    std::int64_t held = 0;
    std::vector<std::unique_ptr<std::array<block, 256>>> all;

    void release(block* b) {
      --held;
      if (owner) return owner->release(b);
      if (held == 0) delete this;
    }
  };
  struct block {
    std::byte* data;
    std::size_t size;
    block *before, *after;   // neighbours in the chunk
    block *previous, *next;  // in the free list
    block_records* home;
    int references;
    std::uint32_t version;  // how often its numbers were replaced
    std::uint32_t updates;  // how often an optimizer did that
    memory category;
    bool is_free;
    bool lent = false;       // to what a conversion along an axis of one rank made of it
    std::uint64_t made = 0;  // the number of its allocation
  };

 public:
  static constexpr std::size_t alignment = 64;

  /// Shared ownership of one block. Copying is a counter on this rank's thread: handles don't cross ranks.
  class handle {
   public:
    handle() = default;
    handle(const handle& other) : block_(other.block_) {
      if (block_) ++block_->references;
    }
    handle(handle&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
    // Not by value: clang 14 doesn't destroy the argument of `x = {}` in a template.
    handle& operator=(const handle& other) noexcept { return *this = handle(other); }
    handle& operator=(handle&& other) noexcept {
      handle moved(std::move(other));
      std::swap(block_, moved.block_);
      return *this;
    }
    ~handle() {
      if (block_ && --block_->references == 0) block_->home->release(block_);
    }
    explicit operator bool() const { return block_ != nullptr; }
    std::byte* data() const { return block_ ? block_->data : nullptr; }
    bool unique() const { return block_ && block_->references == 1; }
    /// Says that the block's numbers were replaced by others, where entries of a tape may still need the old ones.
    void written() const {
      if (block_) ++block_->version;
    }
    std::uint32_t version() const { return block_ ? block_->version : 0; }
    /// Says that an optimizer did that.
    void updated() const {
      written();
      if (block_) ++block_->updates;
    }
    std::uint32_t updates() const { return block_ ? block_->updates : 0; }
    /// Says that another tensor, which has to keep its numbers, has the same memory.
    void lend() const {
      if (block_) block_->lent = true;
    }
    bool lent() const { return block_ && block_->lent && block_->references > 1; }
    /// Which of its arena's allocations it is, from 1; 0: none. No two have the same.
    std::uint64_t made() const { return block_ ? block_->made : 0; }

   private:
    friend class arena;
    explicit handle(block* b) : block_(b) { b->references = 1; }
    block* block_ = nullptr;
  };

  explicit arena(memory_source source = {}, std::size_t chunk_bytes = std::size_t{8} << 20)
      : source_(std::move(source)), chunk_bytes_(chunk_bytes) {}
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;
  ~arena() {
    for (const auto& [chunk, bytes] : chunks_) source_.place ? source_.place->release(chunk) : source_.release(chunk);
    records_->owner = nullptr;
    for (const auto& some : records_->all)
      for (block& b : *some) b.data = nullptr;
    if (records_->held == 0) delete records_;
  }

  /// A block of at least `bytes`, aligned to 64 bytes, its content undefined.
  /// Throws weft::failure when the system has no more memory.
  WEFT_LINKED handle allocate(std::size_t bytes, memory category) {
    const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), alignment);
    block* found = take(size);
    if (!found) {
      grow(size);
      found = take(size);
    }
    ++records_->held;
    found->category = category;
    found->lent = false;
    found->made = ++made_;
    const auto c = static_cast<std::size_t>(category);
    ledger_.current[c] += found->size;
    ledger_.peak[c] = std::max(ledger_.peak[c], ledger_.current[c]);
    ledger_.total += found->size;
    if (ledger_.total > ledger_.peak_total) {
      ledger_.peak_total = ledger_.total;
      ledger_.at_peak = ledger_.current;
      ledger_.peak_made = made_;
    }
    return handle(found);
  }

  const memory_ledger& ledger() const {
    if (scratch_of_) ledger_.scratch = scratch_of_(queue_);
    if (pinned_of_) ledger_.pinned = pinned_of_(queue_);
    return ledger_;
  }
  /// Says whose kernels work on its tensors: the ledger's `scratch` is bytes(queue) from now on.
  void read_scratch(const void* queue, std::optional<std::size_t> (*bytes)(const void* queue)) {
    queue_ = queue, scratch_of_ = bytes;
  }
  /// The same of `pinned`, of the same queue.
  void read_pinned(const void* queue, std::size_t (*bytes)(const void* queue)) { queue_ = queue, pinned_of_ = bytes; }
  /// Whether its memory is the host's; false: a device's, or a source's of one's own.
  bool on_host() const { return source_.allocate == memory_source{}.allocate; }
  /// Whether an address lies in memory that it took.
  bool holds(const void* at) const {
    return std::any_of(chunks_.begin(), chunks_.end(), [at](const auto& c) {
      return std::less_equal<const void*>()(c.first, at) && std::less<const void*>()(at, c.first + c.second);
    });
  }
  /// The ledger's `reserved`.
  std::size_t reserved() const { return ledger_.reserved; }
  /// How often memory was allocated.
  std::uint64_t made() const { return made_; }
  /// Starts the peaks anew from what is held now.
  void reset_peaks() {
    ledger_.peak = ledger_.at_peak = ledger_.current;
    ledger_.peak_total = ledger_.total;
    ledger_.peak_made = made_;
  }

 private:
  static std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }
  static int bin_of(std::size_t size) { return static_cast<int>(std::bit_width(size / alignment)) - 1; }

  [[gnu::cold]] WEFT_LINKED void grow(std::size_t size) {
    const std::size_t bytes = round_up(std::max(size, chunk_bytes_), source_.granularity);
    void* chunk = source_.place ? source_.place->allocate(bytes) : source_.allocate(bytes);
    require(chunk != nullptr, "out of memory: the arena holds ", ledger_.reserved >> 20, " MiB and asked for ",
            bytes >> 20, " MiB more; use a smaller batch, more ranks or a checkpointing policy");
    chunks_.emplace_back(static_cast<std::byte*>(chunk), bytes);
    ledger_.reserved += bytes;
    ++ledger_.chunks;
    push_free(make_block(static_cast<std::byte*>(chunk), bytes, nullptr, nullptr));
  }

  // Best fit: the smallest free block of the first bins that can hold `size`.
  WEFT_LINKED block* take(std::size_t size) {
    block* best = nullptr;
    for (int bin = bin_of(size); bin < bins && !best; ++bin)
      for (block* b = free_[static_cast<std::size_t>(bin)]; b; b = b->next)
        if (b->size >= size && (!best || b->size < best->size)) best = b;
    if (!best) return nullptr;
    pop_free(best);
    if (best->size > size) {
      block* rest = make_block(best->data + size, best->size - size, best, best->after);
      best->size = size;
      push_free(rest);
    }
    return best;
  }

  WEFT_LINKED void release(block* b) {
    ledger_.current[static_cast<std::size_t>(b->category)] -= b->size;
    ledger_.total -= b->size;
    if (b->before && b->before->is_free) b = absorb(b->before, b);
    if (b->after && b->after->is_free) b = absorb(b, b->after);
    push_free(b);
  }

  // Joins two neighbours, of which the free one(s) leave their list; the right one's record goes to the spares.
  WEFT_LINKED block* absorb(block* left, block* right) {
    if (left->is_free) pop_free(left);
    if (right->is_free) pop_free(right);
    left->size += right->size;
    left->after = right->after;
    if (left->after) left->after->before = left;
    right->next = spare_;
    spare_ = right;
    return left;
  }

  WEFT_LINKED block* make_block(std::byte* data, std::size_t size, block* before, block* after) {
    if (!spare_) {
      records_->all.push_back(std::make_unique<std::array<block, 256>>());
      for (block& b : *records_->all.back()) b.next = std::exchange(spare_, &b);
    }
    block* b = std::exchange(spare_, spare_->next);
    *b = {data, size, before, after, nullptr, nullptr, records_, 0, 0, 0, memory::buffers, false};
    if (before) before->after = b;
    if (after) after->before = b;
    return b;
  }

  void push_free(block* b) {
    block*& head = free_[static_cast<std::size_t>(bin_of(b->size))];
    b->is_free = true;
    b->previous = nullptr;
    b->next = head;
    if (head) head->previous = b;
    head = b;
  }
  void pop_free(block* b) {
    (b->previous ? b->previous->next : free_[static_cast<std::size_t>(bin_of(b->size))]) = b->next;
    if (b->next) b->next->previous = b->previous;
    b->is_free = false;
  }

  static constexpr int bins = 58;
  memory_source source_;
  std::size_t chunk_bytes_;
  std::vector<std::pair<std::byte*, std::size_t>> chunks_;  // with their bytes
  block_records* records_ = new block_records{this, 0, {}};
  block* spare_ = nullptr;
  std::array<block*, bins> free_{};
  mutable memory_ledger ledger_;
  const void* queue_ = nullptr;
  std::optional<std::size_t> (*scratch_of_)(const void*) = nullptr;
  std::size_t (*pinned_of_)(const void*) = nullptr;
  std::uint64_t made_ = 0;
};

using storage = arena::handle;

}  // namespace weft
