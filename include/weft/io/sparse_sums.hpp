// Sums of many sizes, of which each 32nd is kept, and a few of such lists for all ranks of a process. Invariant: what
// is found is what all sums would say; where sizes are a function of a key, so is the list.
#pragma once

#include <weft/core/requirements.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace weft::detail {

class sparse_sums {
 public:
  struct place {
    std::int64_t item, offset;
  };

  /// size_of(i): of item i below n, not negative.
  template <class F>
  sparse_sums(std::int64_t n, F&& size_of) {
    kept_.reserve(static_cast<std::size_t>(n / step + 1));
    for (std::int64_t i = 0; i < n; ++i) {
      if (i % step == 0) kept_.push_back(total_);
      total_ += size_of(i);
    }
  }

  std::int64_t total() const { return total_; }
  /// The item that `at`, below the total, lies in, and how far behind its beginning. The same size_of.
  template <class F>
  place find(std::int64_t at, F&& size_of) const {
    const auto behind = std::upper_bound(kept_.begin(), kept_.end(), at);
    std::int64_t item = (behind - kept_.begin() - 1) * step, before = *(behind - 1);
    for (std::int64_t size; before + (size = size_of(item)) <= at; ++item) before += size;
    return {item, at - before};
  }

 private:
  static constexpr std::int64_t step = 32;
  std::int64_t total_ = 0;
  std::vector<std::int64_t> kept_;  // of all items before each step-th
};

/// The lists that were used last. Ranks in several epochs, and several readers of one file, have one each.
class recent_sums {
 public:
  using key = std::array<std::uint64_t, 5>;

  /// make(): the list of a key, which is made by one rank while others wait.
  template <class F>
  std::shared_ptr<const sparse_sums> get(const key& k, F&& make) const {
    const std::lock_guard lock(guard_);
    auto at = std::find_if(held_.begin(), held_.end(), [&](const held& h) { return h.of == k; });
    if (at == held_.end()) {
      auto made = std::make_shared<const sparse_sums>(make());
      if (held_.size() == most) held_.pop_back();
      at = held_.insert(held_.begin(), {k, std::move(made)});
    }
    std::rotate(held_.begin(), at, at + 1);
    return held_.front().sums;
  }

 private:
  struct held {
    key of;
    std::shared_ptr<const sparse_sums> sums;
  };
  static constexpr std::size_t most = 16;  // files that are named twice, and ranks in other epochs of a small one
  mutable std::mutex guard_;
  mutable std::vector<held> held_;  // the last one used first
};

}  // namespace weft::detail
