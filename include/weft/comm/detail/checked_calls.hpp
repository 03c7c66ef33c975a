// The calls of one rank of a checked communicator: announced to the others, compared with theirs, then posted.
// Invariant: an operation is posted once all its ranks have announced it and agree, in the order of its lane's calls.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/comm/detail/mail.hpp"
#include "weft/comm/detail/meeting.hpp"

namespace weft::detail {

struct checked_call {
  enum class stage { announced, posted, complete };

  comm_call what;
  meeting* in = nullptr;
  std::uint64_t number = 0;  // of its meeting's calls
  std::string text;          // "barrier() of group 'tp' (a.cpp:3)"
  stage at = stage::announced;
  request under_way;
};

class checked_calls {
  using clock = std::chrono::steady_clock;
  static constexpr auto settling = std::chrono::milliseconds(100);  // for ranks that still have to say what they call

 public:
  /// `to_others`: of the world.
  explicit checked_calls(mail& to_others) : mail_(to_others), others_(static_cast<std::size_t>(to_others.size())) {}
  ~checked_calls() {
    for (const auto& c : calls_) c->under_way.abandon();
  }
  checked_calls(const checked_calls&) = delete;
  checked_calls& operator=(const checked_calls&) = delete;

  /// Announces this rank's next call in a group; returns its ticket.
  std::uint64_t add(checked_group& group, const comm_call& what, announcement said) {
    const int peer = what.pairs() ? group.members[static_cast<std::size_t>(what.peer)] : -1;
    const auto form = what.is(comm_operation::send)   ? lane_key::form::sends
                      : what.is(comm_operation::recv) ? lane_key::form::receives
                                                      : lane_key::form::collectives;
    meeting& in = at({group.id, form, peer, what.tag});
    if (free_.empty()) {
      free_.push_back(calls_.size());
      calls_.push_back(std::make_unique<checked_call>());
    }
    const std::uint64_t ticket = free_.back();
    if (in.empty()) meetings_.push_back(&in);
    *calls_[ticket] = {what, &in, in.call(group, mail_.rank(), {ticket, said}), in.describe(said), {}, {}};
    free_.pop_back();
    last_ = calls_[ticket]->text;
    text_writer text;
    text.add(told::calls).add(in.key().from_there(mail_.rank())).add(last_);
    said.add_to(text);
    const std::string written = text.take();
    for (const int r : in.others())
      r == mail_.rank() ? at(in.key().from_there(r)).hear(r, said) : mail_.send(r, written);
    return ticket;
  }
  checked_call& of(std::uint64_t ticket) { return *calls_[ticket]; }
  /// The last call of this rank, and the last of another that it has told this one.
  const std::string& last() const { return last_; }
  const std::string& last_of(int rank) const { return other(rank).last; }
  /// How many calls this rank has made in a lane.
  std::uint64_t made(const lane_key& lane) { return at(lane).calls(); }

  void hear(int from, text_reader& in) {
    meeting& m = at(in.get<lane_key>());
    in.get(other(from).last);
    m.hear(from, announcement::from(in));
  }
  /// A rank calls nothing any more; its last call, where its function has returned.
  void leaves(int rank, bool returned, std::string last) { other(rank) = {std::move(last), true, returned}; }

  /// Posts what can be, and moves on what was. Whether anything moved.
  bool advance() {
    bool moved = false;
    for (std::size_t i = 0; i < meetings_.size();) {
      meeting& m = *meetings_[i];
      while (!m.empty() && agrees(m)) start(m), moved = true;
      if (!m.empty()) {
        ++i;
        continue;
      }
      meetings_[i] = meetings_.back();
      meetings_.pop_back();
    }
    for (std::size_t i = 0; i < under_way_.size();) {
      checked_call& c = of(under_way_[i]);
      if (!c.under_way.test()) {
        ++i;
        continue;
      }
      complete(c);
      under_way_[i] = under_way_.back();
      under_way_.pop_back();
      moved = true;
    }
    return moved;
  }
  /// A sentence, where calls can't agree.
  const std::string& problem() const { return problem_; }

  /// Whether an operation can still be complete, though this rank calls nothing more: nobody has left without
  /// announcing it.
  bool may_complete(const checked_call& c) const {
    if (c.at != checked_call::stage::announced) return true;
    if (c.in->closed()) return false;
    for (const int r : c.in->missing(c.number))
      if (other(r).left || r == mail_.rank()) return false;
    return true;
  }
  /// The queue waits for an operation that was posted, which then is complete as far as the host asks; false where
  /// there is none.
  bool make_wait(std::uint64_t ticket, const queue_ref& queue) {
    checked_call& c = of(ticket);
    if (c.at != checked_call::stage::posted) return false;
    under_way_.erase(std::find(under_way_.begin(), under_way_.end(), ticket));
    complete(c);
    c.under_way.wait(queue);
    return true;
  }
  /// The operation is complete, or its buffers are to be touched no more.
  void release(std::uint64_t ticket) noexcept {
    checked_call& c = of(ticket);
    if (c.at == checked_call::stage::announced) c.in->close();
    if (c.at == checked_call::stage::posted) {
      c.under_way.abandon();
      under_way_.erase(std::find(under_way_.begin(), under_way_.end(), ticket));
    }
    c.at = checked_call::stage::complete;
    free_.push_back(ticket);
  }

 private:
  struct other_rank {
    std::string last;
    bool left = false, returned = false;
  };
  other_rank& other(int rank) { return others_[static_cast<std::size_t>(rank)]; }
  const other_rank& other(int rank) const { return others_[static_cast<std::size_t>(rank)]; }
  meeting& at(const lane_key& lane) { return lanes_.try_emplace(lane, lane).first->second; }

  /// Whether all have made a meeting's first call, and it is one.
  bool agrees(meeting& m) {
    if (m.closed()) return false;
    checked_call& c = of(m.first());
    const std::vector<int> missing = m.missing(c.number);
    bool all_said = true;  // that still will
    for (const int r : missing) all_said = all_said && other(r).left;
    if (m.differs()) {
      if (all_said || m.differs_for(settling)) note(m, m.disagreement());
      return false;
    }
    for (const int r : missing)
      if (other(r).returned) note(m, returned(m, c, r));
    if (!missing.empty()) return false;
    if (c.what.is(comm_operation::all_to_allv))
      if (const std::string uneven = m.uneven(); !uneven.empty()) {
        note(m, uneven);
        return false;
      }
    return m.has_room();
  }
  void start(meeting& m) {
    const std::uint64_t ticket = m.first();
    checked_call& c = of(ticket);
    if (c.what.is(comm_operation::split)) {
      m.group().choices = m.said_by_all();
    } else {
      c.under_way = m.group().comm.post(c.what);
      under_way_.push_back(ticket);
    }
    m.agree();
    c.at = checked_call::stage::posted;
    if (c.what.is(comm_operation::split)) complete(c);
  }
  static void complete(checked_call& c) {
    c.at = checked_call::stage::complete;
    c.in->complete();
  }

  void note(meeting& m, const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
    m.close();
  }
  std::string returned(const meeting& m, const checked_call& c, int rank) const {
    const std::string who = text("rank ", rank), own = text("rank ", mail_.rank());
    const std::string what = m.key().pairs() ? text("the ", m.counterpart(), " that ", own, " waits for with ", c.text)
                                             : text(c.text, ", which ", own, " has called");
    const std::string& last = other(rank).last;
    return text(who, " has returned, and never called ", what, "; ",
                last.empty() ? who + " has called nothing" : text("the last that ", who, " called is ", last),
                m.key().pairs() ? ". Every send needs a recv of the same tag, and every recv a send."
                                : ". Every rank of a group has to call the same collectives in the same order.");
  }

  mail& mail_;
  std::vector<other_rank> others_;
  std::map<lane_key, meeting> lanes_;                 // stay where they are
  std::vector<meeting*> meetings_;                    // with calls that haven't agreed
  std::vector<std::unique_ptr<checked_call>> calls_;  // by ticket
  std::vector<std::uint64_t> free_, under_way_;
  std::string last_, problem_;
};

}  // namespace weft::detail
