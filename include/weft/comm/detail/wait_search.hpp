// Who waits in vain: a rank that waits for others' calls asks them, they ask on, and an answer that comes round is a
// deadlock (Chandy, Misra and Haas 1983). Invariant: no false alarm. Whoever passes a search on waits, and hasn't made
// the call that the rank before it waits for, so that one waits too; where the search comes back to its first rank,
// still in the same wait, all have been waiting at one moment, each for the next.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weft/comm/detail/checked_calls.hpp"

namespace weft::detail {

class wait_search {
  using clock = std::chrono::steady_clock;
  static constexpr auto every = std::chrono::milliseconds(50);

 public:
  /// patience: after so long without a sign of a rank, it is taken to be stuck.
  wait_search(checked_calls& calls, mail& to_others, std::chrono::milliseconds patience)
      : calls_(calls), mail_(to_others), patience_(patience) {}

  /// This rank waits for an operation, until `end`.
  void begin(std::uint64_t ticket) {
    awaited_ = &calls_.of(ticket);
    ++wait_;
    since_ = searched_ = clock::now();
    heard_.clear();
  }
  void end() { awaited_ = nullptr; }

  /// From time to time while this rank waits: a sentence, where it can wait for ever.
  std::string look() {
    if (!waits()) return {};
    const auto now = clock::now();
    if (now - searched_ < every) return {};
    searched_ = now;
    wait_chain s;
    s.by = mail_.rank(), s.wait = wait_, s.round = ++round_;
    const std::string dead = pass_on(std::move(s));
    return dead.empty() ? stuck(now) : dead;
  }
  /// A rank shows that it lives.
  void hear_of(int rank) {
    if (awaited_) heard_[rank] = clock::now();
  }
  /// Another rank's search: a sentence, where it has come round.
  std::string hear(int from, wait_chain s) {
    if (s.ranks.size() == 1 && mail_.has_room(from)) mail_.send(from, text_writer().add(told::lives).take());
    if (!waits() || calls_.made(s.lane) > s.number) return {};
    if (s.by == mail_.rank()) return s.wait == wait_ ? deadlock(s) : std::string();
    std::uint64_t& last = passed_[s.by];
    if (s.round <= last) return {};
    last = s.round;
    return pass_on(std::move(s));
  }

 private:
  bool waits() const { return awaited_ && awaited_->at == checked_call::stage::announced; }

  std::string pass_on(wait_chain s) {
    const meeting& in = *awaited_->in;
    const std::vector<int> missing = in.missing(awaited_->number);
    std::string who;
    for (const int r : missing) who += text(who.empty() ? "" : ", ", r);
    s.ranks.push_back(mail_.rank());
    s.waits.push_back(text(awaited_->text, ", ", in.key().pairs() ? text("whose ", in.counterpart()) : "which",
                           " still has to be called by rank ", who));
    s.lane = in.key().from_there(mail_.rank());
    s.number = awaited_->number;
    for (const int r : missing) {
      if (r == mail_.rank()) return alone(s);  // a send or recv of its own
      if (mail_.has_room(r)) mail_.send(r, s.written());
    }
    return {};
  }
  static std::string alone(const wait_chain& s) {
    return text("rank ", s.ranks.back(), " can't go on: it waits for ", s.waits.back(),
                ", which is itself. Call both, then wait for them.");
  }
  static std::string deadlock(const wait_chain& s) {
    const std::size_t ranks = s.ranks.size();
    const auto first = static_cast<std::size_t>(std::min_element(s.ranks.begin(), s.ranks.end()) - s.ranks.begin());
    std::string message = "No rank of these can go on:";
    for (std::size_t i = 0; i < ranks; ++i) {
      const std::size_t at = (first + i) % ranks;
      message += text(i == 0 ? " rank " : "; rank ", s.ranks[at], " waits for ", s.waits[at]);
    }
    return message +
           ". Every rank of a group has to call the same collectives in the same order, and every send needs a "
           "recv of the same tag.";
  }
  std::string stuck(clock::time_point now) const {
    for (const int r : awaited_->in->missing(awaited_->number)) {
      const auto heard = heard_.find(r);
      if (now - (heard == heard_.end() ? since_ : heard->second) < patience_) continue;
      const std::string& last = calls_.last_of(r);
      const std::string who = text("rank ", r), own = text("rank ", mail_.rank());
      return text(
          own, " waits for ", awaited_->text, ", which ", who, " doesn't call: for ",
          static_cast<double>(patience_.count()) / 1000, " s it has called and waited for nothing. ",
          last.empty() ? text("It has called nothing with ", own, " so far.")
                       : text("The last that it called with ", own, " is ", last, "."),
          " Find out what it does; where that may take so long, give checked<C, Limits> a longer Limits::stuck.");
    }
    return {};
  }

  checked_calls& calls_;
  mail& mail_;
  std::chrono::milliseconds patience_;
  const checked_call* awaited_ = nullptr;
  std::uint64_t wait_ = 0, round_ = 0;
  clock::time_point since_{}, searched_{};
  std::map<int, clock::time_point> heard_;  // in this wait
  std::map<int, std::uint64_t> passed_;     // the last round of each rank's searches that went through here
};

}  // namespace weft::detail
