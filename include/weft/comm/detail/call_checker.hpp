// One rank of a checked communicator: its groups, and how it waits, tests and gives up.
// Invariant: what a rank announces before it says that it leaves counts for all; so an operation is posted by all its
// ranks or by none, also where one fails meanwhile.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/comm/detail/checked_calls.hpp"
#include "weft/comm/detail/error_words.hpp"
#include "weft/comm/detail/farewell.hpp"
#include "weft/comm/detail/pause.hpp"
#include "weft/comm/detail/wait_search.hpp"

namespace weft::detail {

class call_checker final : public completion {
 public:
  call_checker(any_communicator world, std::chrono::milliseconds patience)
      : mail_(world.split(0, world.rank(), "checks")),
        calls_(mail_),
        search_(calls_, mail_, patience),
        farewell_(calls_, mail_) {
    std::vector<int> members;
    for (int r = 0; r < world.size(); ++r) members.push_back(r);
    add_group(1, "world", std::move(members), std::move(world));
  }

  checked_group& world() { return *groups_.front(); }

  request post(checked_group& group, const comm_call& call) {
    if (group.comm.size() == 1 && !call.pairs()) return group.comm.post(call);
    go_on();
    return {*this, add(group, call, announce(call, group.comm.size()))};
  }

  checked_group& split(checked_group& group, int color, int key, const char* name) {
    const comm_call call{.operation = comm_operation::split, .label = {.what = name}};
    announcement said = announce(call, group.comm.size());
    said.sizes = {color, key};
    group.choices = {said};
    if (group.comm.size() > 1) {
      go_on();
      const std::uint64_t ticket = add(group, call, std::move(said));
      std::vector<std::uint64_t> texts;
      for (const int r : group.members) texts.push_back(mail_.given(r));
      wait(ticket);
      // The split below blocks, and others come to it when they have heard of this rank's.
      pause rest;
      for (std::size_t m = 0; m < texts.size(); ++m)
        while (mail_.posted(group.members[m]) < texts[m]) {
          if (farewell_.is_late()) farewell_.throw_aborted();
          rest.after(poll());
        }
    }
    std::vector<int> members = members_of_color(group, color);
    const std::uint64_t id = mix(mix(group.id + ++group.splits) + static_cast<std::uint32_t>(color));
    return add_group(id, name, std::move(members), group.comm.split(color, key, name));
  }

  void wait(std::uint64_t ticket) override {
    const releasing done{*this, ticket};
    search_.begin(ticket);
    for (pause rest; !is_complete(ticket) && !ended(); rest.after(poll())) find(search_.look());
    finish(ticket);
  }
  /// Where C takes the queue: until all have called it and agree.
  void make_wait(std::uint64_t ticket, const queue_ref& queue) override {
    if (!calls_.of(ticket).what.queue.runs_behind()) return wait(ticket);
    const releasing done{*this, ticket};
    search_.begin(ticket);
    for (pause rest; calls_.of(ticket).at == checked_call::stage::announced && !ended(); rest.after(poll()))
      find(search_.look());
    if (ended() || !calls_.make_wait(ticket, queue)) finish(ticket);
  }
  bool test(std::uint64_t ticket) override {
    releasing done{*this, ticket};
    poll();
    if (!is_complete(ticket) && !ended()) {
      done.holds = false;
      return false;
    }
    finish(ticket);
    return true;
  }
  void abandon(std::uint64_t ticket) noexcept override {
    const releasing done{*this, ticket};
    try {
      poll();
      if (is_complete(ticket)) return;
      fail_with(text("left ", calls_.of(ticket).text, " by an exception."));
      finish(ticket);
    } catch (...) {  // what unwinds is told, or what ends all ranks
    }
  }

  // ---- the end of a launch ----

  /// This rank's function has returned: waits for the others'. Throws where a rank failed or a fault was found.
  void close() {
    farewell_.leave();
    settle();
    closed_ = true;
    if (ended()) farewell_.close();
  }
  /// It has thrown, and this is called where that was caught. Throws what C's launch shall be told.
  [[noreturn]] void close_with_error() {
    const std::exception_ptr error = std::current_exception();
    bool aborts = false;
    try {
      std::rethrow_exception(error);
    } catch (const aborted&) {
      aborts = true;
    } catch (...) {
    }
    if (!aborts) fail_with("failed: " + words_of(error));
    if (ended()) settle();
    closed_ = true;
    if (aborts && ended()) farewell_.close();
    mail_.abandon();
    std::rethrow_exception(error);
  }

 private:
  struct releasing {
    call_checker& from;
    std::uint64_t ticket;
    bool holds = true;
    ~releasing() {
      if (!holds) return;
      from.search_.end();
      from.calls_.release(ticket);
    }
  };

  checked_group& add_group(std::uint64_t id, std::string name, std::vector<int> members, any_communicator comm) {
    groups_.push_back(std::make_unique<checked_group>(
        checked_group{id, std::move(name), std::move(members), std::move(comm), 0, {}}));
    return *groups_.back();
  }
  std::uint64_t add(checked_group& group, const comm_call& call, announcement said) {
    const std::uint64_t ticket = calls_.add(group, call, std::move(said));
    try {
      poll();
    } catch (...) {
      calls_.release(ticket);
      throw;
    }
    return ticket;
  }
  bool is_complete(std::uint64_t ticket) { return calls_.of(ticket).at == checked_call::stage::complete; }
  /// Where the operation is complete or all ranks end: returns in the first case, once it is.
  void finish(std::uint64_t ticket) {
    search_.end();
    for (pause rest; !is_complete(ticket); rest.after(poll()))
      if (!calls_.may_complete(calls_.of(ticket)) || farewell_.is_late()) farewell_.throw_aborted();
  }
  void go_on() {
    require(!closed_, "a communicator of checked<C>::launch was used after the launch.");
    poll();
    if (ended()) farewell_.throw_aborted();
  }

  /// Moves everything on. What C throws it throws from then on: C's ranks end.
  bool poll() {
    if (broken_) std::rethrow_exception(broken_);
    try {
      const bool came = mail_.poll([&](int from, const std::string& what) { return hear(from, what); });
      const bool moved = calls_.advance();
      find(calls_.problem());
      return came || moved;
    } catch (...) {
      broken_ = std::current_exception();
      throw;
    }
  }
  /// A text of another rank; false where it is its last.
  bool hear(int from, const std::string& what) {
    text_reader in(what);
    const auto kind = in.get<told>();
    search_.hear_of(from);
    if (kind == told::calls) calls_.hear(from, in);
    if (kind == told::seeks) find(search_.hear(from, wait_chain::from(in)));
    if (kind == told::leaves) farewell_.hear(from, in);
    return kind != told::ends;
  }

  bool ended() const { return farewell_.ended(); }
  void find(const std::string& fault) {
    if (!fault.empty() && !ended()) farewell_.end_with({end_reason::kind::found, mail_.rank(), fault});
  }
  void fail_with(const std::string& what) {
    const int own = mail_.rank();
    if (!ended()) farewell_.end_with({end_reason::kind::failed, own, text("rank ", own, " ", what)});
  }
  /// Until all ranks have left; where they end by a fault, not for ever.
  void settle() {
    try {
      for (pause rest; !farewell_.is_over() && !farewell_.is_late(); rest.after(poll())) {
      }
    } catch (...) {
      if (!ended()) throw;
    }
  }

  mail mail_;
  checked_calls calls_;
  wait_search search_;
  farewell farewell_;
  std::vector<std::unique_ptr<checked_group>> groups_;  // the world first
  bool closed_ = false;
  std::exception_ptr broken_;
};

}  // namespace weft::detail
