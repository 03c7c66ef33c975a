// Which steps a trainer has given to its queue and hasn't heard of: one, and perhaps the next behind it. Invariant:
// they are heard of in their order, and the second is forgotten where the first wasn't taken.
#pragma once

#include <weft/core/requirements.hpp>

#include <cstdint>
#include <utility>

namespace weft::detail {

/// What a step's gradients are computed with.
struct given_step {
  std::int64_t step = 0;
  std::uint64_t passes = 0;  // recorded before it
  double loss_scale = 1;
  bool updated = false;  // so that the gradients are used up
};

class given_steps {
 public:
  given_step now;   // whose gradients are in the store
  given_step last;  // which was heard of last

  int unread() const { return unread_; }
  /// The update by `now` was given.
  void given() {
    now.updated = true;
    (unread_++ == 0 ? first_ : second_) = now;
  }
  /// The first that was given is `last` from now on. True where another was given behind one that wasn't taken: it is
  /// forgotten, and is what `forgotten()` says.
  bool heard(bool taken) {
    last = std::exchange(first_, second_);
    const bool in_vain = --unread_ > 0 && !taken;
    if (in_vain) unread_ = 0;
    return in_vain;
  }
  const given_step& forgotten() const { return second_; }

 private:
  given_step first_, second_;
  int unread_ = 0;
};

}  // namespace weft::detail
