// Where the ranks' calls of one lane meet: this rank's own in their order, and what the others say of theirs.
// Invariant: a call agrees once all of its ranks have made it and it is one operation; they agree in order.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/comm/any.hpp"
#include "weft/comm/detail/announcement.hpp"
#include "weft/comm/detail/disagreement.hpp"

namespace weft::detail {

/// One group, as one of its ranks sees it.
struct checked_group {
  std::uint64_t id = 0;  // the same on all its ranks, and another than that of this rank's other groups
  std::string name;
  std::vector<int> members;  // in the world
  any_communicator comm;
  std::uint64_t splits = 0;           // so far
  std::vector<announcement> choices;  // of its members in the last split
};

/// The members of the group that a split makes of those of one color: in the world, by key; those of one key stay in
/// order.
inline std::vector<int> members_of_color(const checked_group& group, int color) {
  const auto chosen = [&](int m, std::size_t what) { return group.choices[static_cast<std::size_t>(m)].sizes[what]; };
  std::vector<int> members;
  for (int m = 0; m < group.comm.size(); ++m)
    if (chosen(m, 0) == color) members.push_back(m);
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) { return chosen(a, 1) < chosen(b, 1); });
  for (int& m : members) m = group.members[static_cast<std::size_t>(m)];
  return members;
}

class meeting {
 public:
  static constexpr int most_under_way = 16;  // sends of a pair with one tag that any communicator takes

  struct own_call {
    std::uint64_t ticket;
    announcement said;
  };

  explicit meeting(const lane_key& key) : key_(key) {}

  const lane_key& key() const { return key_; }
  checked_group& group() const { return *group_; }
  /// Whom this rank tells of its calls here, and hears; itself, where it sends to itself.
  const std::vector<int>& others() const { return others_; }

  /// This rank's next call; returns its number in the lane. `me`: in the world.
  std::uint64_t call(checked_group& group, int me, own_call what) {
    if (!group_) open(group, me);
    own_.push_back(std::move(what));
    return calls() - 1;
  }
  void hear(int from, announcement what) { heard_[from].push_back(std::move(what)); }

  /// How many calls this rank has made here, and whether all of them agreed.
  std::uint64_t calls() const { return agreed_ + own_.size(); }
  bool empty() const { return own_.empty(); }
  /// Who has still to make the call of this number.
  std::vector<int> missing(std::uint64_t number) const {
    std::vector<int> out;
    for (const int r : others_)
      if (heard_from(r) <= number - agreed_) out.push_back(r);
    return out;
  }
  /// Whether this rank's first call can't be what others have called, and whether that has been known for so long.
  bool differs() const {
    for (const int r : others_)
      if (heard_from(r) > 0 && heard_.at(r).front().print != own_.front().said.print) return true;
    return false;
  }
  bool differs_for(std::chrono::milliseconds time) {
    const auto now = std::chrono::steady_clock::now();
    if (differs_since_ == std::chrono::steady_clock::time_point()) differs_since_ = now;
    return now - differs_since_ >= time;
  }
  std::string disagreement() const {
    return disagreement_of(group_->name, ranks_, agreed_, key_.pairs(), [&](int m) {
      const announcement* said = said_by(m);
      return said ? "calls " + said->text() : std::string("has called nothing here yet");
    });
  }
  /// The sentence for sizes of an all_to_allv that don't fit; all have called it.
  std::string uneven() const {
    const announcement& own = own_.front().said;
    if (own.sizes.size() != 2 * ranks_.size()) return {};
    return uneven_parts(group_->name, ranks_, own.purpose, [&](int m) {
      const std::int64_t* sizes = said_by(m)->sizes.data();
      return part_sizes{sizes, sizes + ranks_.size()};
    });
  }

  /// What each member says of this rank's first call; all have made it.
  std::vector<announcement> said_by_all() const {
    std::vector<announcement> all;
    for (int m = 0; m < static_cast<int>(ranks_.size()); ++m) all.push_back(*said_by(m));
    return all;
  }
  /// This rank's first call that hasn't agreed.
  std::uint64_t first() const { return own_.front().ticket; }
  /// Takes the first call, on which all agree; its operation is under way until `complete`.
  void agree() {
    for (const int r : others_) heard_[r].pop_front();
    own_.pop_front();
    ++agreed_;
    ++under_way_;
  }
  void complete() { --under_way_; }
  bool has_room() const { return under_way_ < most_under_way; }
  /// The buffers of one of its calls are gone: nothing more agrees here.
  void close() { closed_ = true; }
  bool closed() const { return closed_; }

  /// "barrier() of group 'tp' for x (a.cpp:3)".
  std::string describe(const announcement& said) const {
    return text(said.words, " of group '", group_->name, "'", said.purpose);
  }
  /// What is missing of a pair's call.
  const char* counterpart() const { return key_.of == lane_key::form::sends ? "recv" : "send"; }

 private:
  void open(checked_group& group, int me) {
    group_ = &group;
    if (key_.pairs()) {
      others_ = {key_.peer};
      ranks_ = key_.of == lane_key::form::sends ? std::vector{me, key_.peer} : std::vector{key_.peer, me};
      place_ = key_.of == lane_key::form::sends ? 0 : 1;
      return;
    }
    ranks_ = group.members;
    others_ = ranks_;
    const auto own = std::find(others_.begin(), others_.end(), me);
    place_ = static_cast<int>(own - others_.begin());
    others_.erase(own);
  }
  std::size_t heard_from(int rank) const {
    const auto found = heard_.find(rank);
    return found == heard_.end() ? 0 : found->second.size();
  }
  /// The first call of a member that is under comparison.
  const announcement* said_by(int m) const {
    if (m == place_) return &own_.front().said;
    const int rank = ranks_[static_cast<std::size_t>(m)];
    return heard_from(rank) > 0 ? &heard_.at(rank).front() : nullptr;
  }

  lane_key key_;
  checked_group* group_ = nullptr;  // once this rank has called something here
  std::vector<int> ranks_, others_;
  int place_ = 0;
  std::deque<own_call> own_;                       // those that haven't agreed
  std::map<int, std::deque<announcement>> heard_;  // of the others', by their rank in the world
  std::uint64_t agreed_ = 0;
  std::chrono::steady_clock::time_point differs_since_{};
  int under_way_ = 0;
  bool closed_ = false;
};

}  // namespace weft::detail
