// What a model has read of a text, kept from one call to the next. Invariant: the cache has the keys and values of
// `tokens`, or there are none: while a pass runs, and after one that failed.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <weft/op/kv_cache.hpp>

namespace weft {

/// Given to generate_text for a text that grows by turns: tokens with which the next prompt begins as the last text
/// did aren't read again. Each rank has its own, for one text; another text, another model and new weights cost
/// nothing but that all is read. Its memory is a kv_cache's, of the longest text so far.
class kept_text {
 public:
  kept_text() = default;
  kept_text(const kept_text&) = delete;
  kept_text& operator=(const kept_text&) = delete;

  /// Whose keys and values are kept, the same on all ranks. None of a model that reads whole texts (decoder::keeps).
  std::span<const std::int32_t> tokens() const { return tokens_; }

  // For who writes a text.

  /// A cache of one sequence, with room for so many positions. All ranks call it.
  template <class Model>
  kv_cache& cache_for(Model& model, std::int64_t positions) {
    context& ctx = model.ctx();
    const std::int32_t mine = cache_ && model.kept_in(*cache_);
    std::vector<std::int32_t> all(static_cast<std::size_t>(ctx.size().here()));
    ctx.world.host().all_gather(&mine, all.data(), sizeof mine, {"whether a text is kept"}).wait();
    if (std::find(all.begin(), all.end(), 0) != all.end()) {
      tokens_.clear();
      cache_.emplace(ctx, 1, positions);
    }
    // By half at least, so that a text of many turns isn't copied in each.
    const std::int64_t half_more = std::min<std::int64_t>(cache_->capacity() / 2 * 3, model.config().max_seq);
    if (positions > cache_->capacity())
      cache_->template reserve<typename Model::ids::backend>(std::max(positions, half_more));
    return *cache_;
  }
  /// How many of the text's first tokens are kept, at most all but its last. From here on none is, until keep().
  std::int64_t begin(std::span<const std::int32_t> text) {
    const std::vector<std::int32_t> kept = std::exchange(tokens_, {});
    const auto alike = std::mismatch(kept.begin(), kept.end(), text.begin(), text.end()).first - kept.begin();
    return std::min<std::int64_t>(alike, std::ssize(text) - 1);
  }
  /// The cache has these now.
  void keep(std::span<const std::int32_t> tokens) { tokens_.assign(tokens.begin(), tokens.end()); }

 private:
  std::vector<std::int32_t> tokens_;
  std::optional<kv_cache> cache_;
};

}  // namespace weft
