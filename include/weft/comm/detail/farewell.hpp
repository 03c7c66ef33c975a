// How the ranks of a checked communicator come to one end: each says when it calls nothing any more, and why, and goes
// when it knows that of all. Invariant: where all come to it, all know the same reason, the first of all that were
// said.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#include "weft/comm/detail/checked_calls.hpp"

namespace weft::detail {

class farewell {
  using clock = std::chrono::steady_clock;
  static constexpr auto grace = std::chrono::milliseconds(300);  // for ranks that compute when others end

 public:
  farewell(checked_calls& calls, mail& to_others) : calls_(calls), mail_(to_others) {}

  /// Whether all ranks end by a fault, and whether this one has waited long enough for others to notice.
  bool ended() const { return !why_.none(); }
  bool is_late() const { return ended() && clock::now() > grace_ends_; }
  [[noreturn]] void throw_aborted() const { throw aborted("This collective can't finish: " + why_.text); }

  /// This rank failed, or found a fault, or was told so.
  void end_with(end_reason why) {
    if (!ended()) grace_ends_ = clock::now() + grace;
    if (why.before(why_)) why_ = std::move(why);
    leave();
  }
  /// Says to all that this rank calls nothing any more, and why.
  void leave() {
    if (std::exchange(left_, true)) return;
    text_writer text;
    text.add(told::leaves);
    why_.add_to(text);
    tell_all(text.add(calls_.last()).take());
  }
  /// Another rank says so.
  void hear(int from, text_reader& in) {
    end_reason why = end_reason::from(in);
    calls_.leaves(from, why.none(), in.get<std::string>());
    ++others_left_;
    if (!why.none()) end_with(std::move(why));
  }

  /// After leave: whether all ranks have left, and know that all have.
  bool is_over() {
    if (others_left_ == mail_.size() - 1 && !std::exchange(told_, true)) tell_all(text_writer().add(told::ends).take());
    return told_ && mail_.all_ended() && mail_.all_arrived();
  }
  /// Throws what the launch of C is to be told where all ranks end by a fault, and this one didn't throw an error.
  [[noreturn]] void close() {
    const bool own = why_.by == mail_.rank();
    if (why_.is == end_reason::kind::failed && !own) {
      mail_.wait_for_end();
      mail_.abandon();
      throw_aborted();  // C's launch has the error itself
    }
    if (own && others_left_ < mail_.size() - 1)  // the launch may wait for a rank that never comes back
      std::fprintf(stderr, "weft: %s\n", why_.text.c_str()), std::fflush(stderr);
    mail_.abandon();
    throw failure(why_.text);
  }

 private:
  void tell_all(const std::string& what) {
    for (int r = 0; r < mail_.size(); ++r)
      if (r != mail_.rank()) mail_.send(r, what);
  }

  checked_calls& calls_;
  mail& mail_;
  end_reason why_;
  clock::time_point grace_ends_{};
  bool left_ = false, told_ = false;
  int others_left_ = 0;
};

}  // namespace weft::detail
