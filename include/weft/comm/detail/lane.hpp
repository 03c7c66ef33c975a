// A lane: the operations of one group (or of one pair of ranks with one tag) in the order of their tickets, on a ring
// of slots. Invariant: a slot takes its next operation only when all members have called it, and they call it only when
// the slot's previous one is complete; so no member ever works on an operation that has passed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/comm/detail/device_side.hpp"
#include "weft/comm/detail/disagreement.hpp"
#include "weft/comm/detail/hub.hpp"
#include "weft/comm/detail/lane_slot.hpp"
#include "weft/core/thread.hpp"

namespace weft::detail {

/// Once all members have called an operation its data may move; whoever waits moves it, piece by piece, its own share
/// first. A member that computes meanwhile holds nobody up.
class lane : public waitable {
 public:
  static constexpr std::uint64_t ring = device_mover::places;  // operations that may be outstanding
  static constexpr std::int64_t at_once = 32 << 10;  // up to so many bytes of work the last caller does while posting

  /// members[m] is the world rank of member m. A lane of a pair has the sender first.
  [[gnu::cold]] lane(hub& owner, std::vector<int> members, std::string name)
      : hub_(owner), members_(std::move(members)), name_(std::move(name)), sources_(members_.size()) {
    for (std::uint64_t s = 0; s < ring; ++s) slots_.push_back(std::make_unique<lane_slot>(size()));
    for (int m = 0; m < size(); ++m) source(m).bind(*this, m);
  }

  int size() const { return static_cast<int>(members_.size()); }

  /// Adds member m's next operation. Blocks only while the ring is full.
  WEFT_LINKED request post(int m, const comm_call& what) {
    if (hub_.ended()) hub_.leave();
    const std::uint64_t ticket = source(m).posted;
    if (ticket >= ring) wait(m, ticket - ring);
    source(m).posted = ticket + 1;
    lane_slot& s = at(ticket);
    s.of(m).what = what;
    if (what.queue.moves_data()) device_.called(hub_.mutex(), ticket % ring, m, size(), what);
    const std::uint64_t all = (ticket / ring + 1) * members_.size();
    if (s.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == all) start(s, m, ticket);
    return {source(m), ticket};
  }

  WEFT_LINKED void wait(int m, std::uint64_t ticket) {
    lane_slot& s = at(ticket);
    // Pauses for about a microsecond; then gives the core away between looks, which the peer may wait for; then sleeps.
    spin_wait idle(hub_.crowded() ? 0 : 60, hub_.crowded() ? 4 : 100);
    while (!over(s, ticket)) {
      const bool moved = work(s, m, ticket) || help(m);
      if (!moved && idle.again()) continue;
      if (!moved) sleep(s, m, ticket);
      idle.reset();
    }
  }

  bool test(int m, std::uint64_t ticket) {
    lane_slot& s = at(ticket);
    if (!over(s, ticket)) {
      work(s, m, ticket);
      if (!can_move(ticket)) require_yet_to_come(m, ticket);
    }
    return done(s, ticket) && device_.done(ticket % ring);
  }

  [[gnu::cold, gnu::noinline]] void abandon(int m, std::uint64_t ticket) noexcept {
    const int rank = rank_of(m);
    if (!done(at(ticket), ticket)) {
      hub_.end(rank, text("rank ", rank, " left a collective of group '", name_, "' by an exception."), {});
      hub_.quiesce();
    }
    device_.end(ticket % ring);
  }

  void wake() override {
    bell_.fetch_add(1, std::memory_order_seq_cst);
    wake_sleepers(bell_);
  }
  bool can_move(std::uint64_t ticket) const override {
    return at(ticket).ready.load(std::memory_order_seq_cst) > ticket;
  }
  [[gnu::cold]] WEFT_LINKED std::string describe_wait(int world_rank, std::uint64_t ticket) const override {
    int m = 0;
    std::string missing;
    for (int k = 0; k < size(); ++k) {
      if (rank_of(k) == world_rank && posted_by(k) > ticket) m = k;
      if (posted_by(k) <= ticket) missing += text(missing.empty() ? "" : ", ", rank_of(k));
    }
    return text(name_of(at(ticket).of(m).what), ", which still has to be called by rank ", missing);
  }

 private:
  struct alignas(64) member final : public completion {
    void bind(lane& in, int as) { owner = &in, index = as; }
    void wait(std::uint64_t ticket) override {
      owner->wait(index, ticket);
      owner->device_.finish(ticket % ring);
    }
    void make_wait(std::uint64_t ticket, const queue_ref& queue) override {
      owner->wait(index, ticket);
      owner->device_.precede(ticket % ring, queue);
    }
    bool test(std::uint64_t ticket) override { return owner->test(index, ticket); }
    void abandon(std::uint64_t ticket) noexcept override { owner->abandon(index, ticket); }
    lane* owner = nullptr;
    int index = 0;
    std::uint64_t posted = 0;  // both used by the member's own thread only
    std::uint64_t oldest = 0;  // all operations before it are complete
  };

  int rank_of(int m) const { return members_[static_cast<std::size_t>(m)]; }  // in the world
  member& source(int m) { return sources_[static_cast<std::size_t>(m)]; }
  std::uint64_t posted_by(int m) const { return sources_[static_cast<std::size_t>(m)].posted; }
  lane_slot& at(std::uint64_t ticket) { return *slots_[ticket % ring]; }
  const lane_slot& at(std::uint64_t ticket) const { return *slots_[ticket % ring]; }
  static bool done(const lane_slot& s, std::uint64_t ticket) {
    return s.complete.load(std::memory_order_seq_cst) > ticket;
  }

  /// Done; throws when it never will be. The end is looked for first: a rank that ends all after an operation completed
  /// on it must not take the result from the others.
  bool over(const lane_slot& s, std::uint64_t ticket) {
    const bool ended = hub_.ended();
    if (done(s, ticket)) return true;
    if (ended) hub_.quiesce(), device_.end(ticket % ring), hub_.leave();  // whoever gave it to the device has done so
    return false;
  }

  std::string name_of(const comm_call& what) const {
    return text(describe_operation(what), " of group '", name_, "'", purpose_of(what));
  }

  /// Member m was the last to call: checks the calls against each other and lets the data move. Labels name what a
  /// member that unwinds would free, so comparing them is work, like moving data.
  WEFT_LINKED void start(lane_slot& s, int m, std::uint64_t ticket) {
    const int rank = rank_of(m);
    if (!hub_.enter_work(rank)) hub_.leave();
    const comm_call& first = s.entries[0].what;
    bool fit = !first.is(comm_operation::all_to_allv);
    for (auto& e : s.entries) fit = fit && agree(first, e.what);
    if (!fit) compare(s, rank, ticket);
    if (first.queue.moves_data()) {
      s.moves.plan_nothing();
      device_.move(ticket % ring, [&] { hub_.leave_work(rank); });
    } else {
      s.moves.plan([&](int r) -> const comm_call& { return s.of(r).what; });
    }
    const bool shared = s.moves.work() > at_once;
    // what is done here must look taken: a member may see it ready after it saw it incomplete
    for (auto& e : s.entries) e.next.store(shared ? 0 : s.moves.count(), std::memory_order_relaxed);
    s.moved.store(0, std::memory_order_relaxed);
    for (std::int64_t i = 0; !shared && i < s.moves.count(); ++i) s.moves.run(i);
    hub_.leave_work(rank);
    if (!shared) s.complete.store(ticket + 1, std::memory_order_seq_cst);
    s.ready.store(ticket + 1, std::memory_order_seq_cst);
    ring_bell();
  }

  /// Moves pieces until none is left to take; true if it moved any.
  WEFT_LINKED bool work(lane_slot& s, int m, std::uint64_t ticket) {
    if (done(s, ticket) || !can_take(s, ticket)) return false;
    if (!hub_.enter_work(rank_of(m))) return false;
    std::int64_t moved = 0;
    for (int k = 0; k < size(); ++k) {
      const std::int64_t share = (m + k) % size();
      const std::int64_t begin = s.first_of(share), count = s.pieces_of(share);
      std::atomic<std::int64_t>& next = s.of(share).next;
      while (next.load(std::memory_order_relaxed) < count && !hub_.ended()) {
        const std::int64_t taken = next.fetch_add(1, std::memory_order_relaxed);
        if (taken >= count) break;
        s.moves.run(begin + taken);
        ++moved;
      }
    }
    hub_.leave_work(rank_of(m));
    if (moved == 0) return false;
    if (s.moved.fetch_add(moved, std::memory_order_acq_rel) + moved == s.moves.count()) {
      s.complete.store(ticket + 1, std::memory_order_seq_cst);
      ring_bell();
    }
    return true;
  }

  /// Moves data of this member's other operations in this lane; true if it did.
  WEFT_LINKED bool help(int m) {
    member& me = source(m);
    bool moved = false;
    for (std::uint64_t t = me.oldest; t < me.posted; ++t) {
      if (t == me.oldest && done(at(t), t)) {
        ++me.oldest;
      } else if (work(at(t), m, t)) {
        moved = true;
      }
    }
    return moved;
  }

  WEFT_LINKED void sleep(lane_slot& s, int m, std::uint64_t ticket) {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t bell = bell_.load(std::memory_order_seq_cst);
    if (!done(s, ticket) && !can_take(s, ticket) && !hub_.ended()) {
      hub_.enter_sleep(rank_of(m), *this, ticket);
      sleep_while(bell_, bell, std::memory_order_seq_cst);
      hub_.leave_sleep();
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }
  bool can_take(const lane_slot& s, std::uint64_t ticket) const {
    return s.ready.load(std::memory_order_seq_cst) > ticket && s.has_untaken();
  }
  void ring_bell() {
    if (sleepers_.load(std::memory_order_seq_cst) != 0) wake();
  }

  /// Ends all ranks where the calls don't fit together.
  [[gnu::cold]] WEFT_LINKED void compare(const lane_slot& s, int rank, std::uint64_t ticket) {
    const std::string problem =
        disagreement(name_, members_, ticket, [&](int m) -> const comm_call& { return s.of(m).what; });
    if (problem.empty()) return;
    hub_.leave_work(rank);
    hub_.end_with(problem);
  }

  /// Who polls never sleeps, so no deadlock is seen: ends all ranks where one has returned without this call.
  WEFT_LINKED void require_yet_to_come(int m, std::uint64_t ticket) {
    for (int k = 0; k < size(); ++k)
      if (hub_.has_returned(rank_of(k)) && posted_by(k) <= ticket) [[unlikely]]
        hub_.end_with(text("rank ", rank_of(m), " tests for ", name_of(at(ticket).of(m).what), ", and rank ",
                           rank_of(k), " has returned without calling it. ", all_alike));
  }

  hub& hub_;
  std::vector<int> members_;
  std::string name_;
  std::vector<member> sources_;
  std::vector<std::unique_ptr<lane_slot>> slots_;
  device_side device_;
  alignas(64) std::atomic<std::uint32_t> bell_{0};
  std::atomic<int> sleepers_{0};
};

}  // namespace weft::detail
