// One operation of a lane under way: what each member called, and how much of its data has moved. Invariant: it is used
// again only once all members have called it and its data has moved.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "weft/comm/detail/pieces.hpp"

namespace weft::detail {

/// One member's call, and the next piece of its share.
struct alignas(64) lane_entry {
  comm_call what;
  std::atomic<std::int64_t> next{0};
};
struct alignas(64) lane_slot {
  explicit lane_slot(int members) : entries(static_cast<std::size_t>(members)), moves(members) {}
  lane_entry& of(std::int64_t m) { return entries[static_cast<std::size_t>(m)]; }
  const lane_entry& of(std::int64_t m) const { return entries[static_cast<std::size_t>(m)]; }
  /// The first piece of a member's share, and how many it has.
  std::int64_t first_of(std::int64_t share) const {
    return moves.count() * share / static_cast<std::int64_t>(entries.size());
  }
  std::int64_t pieces_of(std::int64_t share) const { return first_of(share + 1) - first_of(share); }
  /// Whether there are pieces that nobody has taken.
  WEFT_LINKED bool has_untaken() const {
    for (std::int64_t share = 0; share < static_cast<std::int64_t>(entries.size()); ++share)
      if (of(share).next.load(std::memory_order_relaxed) < pieces_of(share)) return true;
    return false;
  }

  std::atomic<std::uint64_t> arrived{0};  // calls, over all operations that used the slot
  std::atomic<std::uint64_t> ready{0};    // ticket + 1 of the last operation that all members called
  std::vector<lane_entry> entries;
  pieces moves;
  alignas(64) std::atomic<std::int64_t> moved{0};  // pieces
  std::atomic<std::uint64_t> complete{0};          // ticket + 1
};

}  // namespace weft::detail
