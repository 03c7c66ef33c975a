// Texts between the ranks of a group, of any length, in frames of one size: who receives needs to know nothing of what
// comes. Invariant: what one rank sends another arrives whole and in order; a receive from each rank is under way until
// its last text is here, and never more than `most` sends to it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "weft/comm/any.hpp"

namespace weft::detail {

class mail {
 public:
  static constexpr std::size_t most = 8;

  /// A group that nothing else uses. All its ranks make one.
  explicit mail(any_communicator among) : comm_(std::move(among)), peers_(static_cast<std::size_t>(comm_.size())) {
    for (int p = 0; p < comm_.size(); ++p)
      if (p != rank())
        receive(p);
      else
        of(p).ended = true;
  }
  ~mail() { abandon(); }
  mail(const mail&) = delete;
  mail& operator=(const mail&) = delete;

  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }

  /// Sends a text that isn't empty, with the next `poll` in which there is room.
  void send(int to, std::string text) {
    of(to).texts.push_back(std::move(text));
    ++of(to).given;
  }
  /// How many texts there were for `to`, and how many of them are on their way or have arrived.
  std::uint64_t given(int to) const { return of(to).given; }
  std::uint64_t posted(int to) const { return of(to).given - of(to).texts.size(); }

  /// Whether few texts wait for `to`, as they do where it comes to receive them.
  bool has_room(int to) const { return of(to).texts.size() < most; }

  /// take(from, text) is given what has come, and says whether more will come from there. Whether anything moved.
  template <class Take>
  bool poll(const Take& take) {
    bool moved = false;
    for (int p = 0; p < size(); ++p) {
      moved |= post(p);
      while (!of(p).ended && of(p).incoming.test()) moved = true, arrive(p, take);
    }
    return moved;
  }

  /// Whether the last texts are here, and whether all that was sent has arrived.
  bool all_ended() const {
    return std::all_of(peers_.begin(), peers_.end(), [](const peer& p) { return p.ended; });
  }
  bool all_arrived() const {
    return std::all_of(peers_.begin(), peers_.end(),
                       [](const peer& p) { return p.texts.empty() && p.on_the_way.empty(); });
  }
  /// Where another rank has failed: returns when the communicator, too, says that all ranks end, or after a second.
  void wait_for_end() {
    try {
      for (int tries = 0; tries < 1000; ++tries) {
        char sent = 0, received = 0;
        request there = comm_.send(&sent, 1, rank(), 1, {"checks"}),
                here = comm_.recv(&received, 1, rank(), 1, {"checks"});
        there.wait();
        here.wait();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    } catch (const aborted&) {
    }
  }
  /// Gives up what is under way.
  void abandon() noexcept {
    for (peer& p : peers_) {
      p.incoming.abandon();
      for (frame_sent& f : p.on_the_way) f.sent.abandon();
      p.ended = true;
      p.on_the_way.clear();
      p.texts.clear();
    }
  }

 private:
  struct frame {
    std::uint32_t left = 0;  // bytes of the text from here on
    char bytes[252] = {};
  };
  struct frame_sent {
    frame what;
    request sent;
  };
  struct peer {
    frame in;
    request incoming;
    std::string came;
    bool ended = false;
    std::deque<std::string> texts;  // the first from `at` on
    std::size_t at = 0;
    std::uint64_t given = 0;
    std::deque<frame_sent> on_the_way;  // its elements stay where they are
  };
  peer& of(int p) { return peers_[static_cast<std::size_t>(p)]; }
  const peer& of(int p) const { return peers_[static_cast<std::size_t>(p)]; }

  void receive(int from) { of(from).incoming = comm_.recv(&of(from).in, sizeof(frame), from, 0, {"checks"}); }
  template <class Take>
  void arrive(int from, const Take& take) {
    peer& p = of(from);
    const std::size_t bytes = std::min<std::size_t>(p.in.left, sizeof p.in.bytes);
    p.came.append(p.in.bytes, bytes);
    if (p.in.left == bytes) {
      const std::string text = std::move(p.came);
      p.came.clear();
      p.ended = !take(from, text);
    }
    if (!p.ended) receive(from);
  }

  bool post(int to) {
    peer& p = of(to);
    bool moved = false;
    while (!p.on_the_way.empty() && p.on_the_way.front().sent.test()) moved = true, p.on_the_way.pop_front();
    while (!p.texts.empty() && p.on_the_way.size() < most) {
      moved = true;
      const std::string& text = p.texts.front();
      frame_sent& next = p.on_the_way.emplace_back();
      next.what.left = static_cast<std::uint32_t>(text.size() - p.at);
      const std::size_t bytes = std::min<std::size_t>(next.what.left, sizeof next.what.bytes);
      std::memcpy(next.what.bytes, text.data() + p.at, bytes);
      p.at += bytes;
      if (bytes == next.what.left) p.texts.pop_front(), p.at = 0;
      next.sent = comm_.send(&next.what, sizeof(frame), to, 0, {"checks"});
    }
    return moved;
  }

  any_communicator comm_;
  std::vector<peer> peers_;
};

}  // namespace weft::detail
