// Extents that ranks share out though they don't divide them. Every rank's share is as long as the longest, ceil(extent
// / ranks); what the shares hold beyond the extent is padding. Invariant: a tensor knows its shares; what they add up
// to is known here.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <weft/core/error.hpp>

namespace weft {

class uneven_extents {
 public:
  /// Says that dimension `dim` has tensors of `n` elements, for as long as the rank lives.
  void add(std::string_view dim, std::int64_t n) {
    if (!has(dim, n)) known_.push_back({dim, n});
  }
  /// The same, in place of what was said of the dimension before: for one that varies from batch to batch.
  void replace(std::string_view dim, std::int64_t n) {
    std::erase_if(known_, [&](const extent& e) { return e.dim == dim; });
    known_.push_back({dim, n});
  }
  bool has(std::string_view dim, std::int64_t n) const {
    for (const extent& e : known_)
      if (e.dim == dim && e.n == n) return true;
    return false;
  }

  /// The whole of a dimension of which each of `ranks` ranks holds `local`: the extent said to have such shares, or
  /// else their sum. Throws when two were said to.
  std::int64_t whole(std::string_view dim, std::int64_t local, int ranks) const {
    std::int64_t found = 0;
    for (const extent& e : known_)
      if (e.dim == dim && share(e.n, ranks) == local) {
        require(ranks == 1 || !found, "dimension ", dim, " has tensors of ", found, " and of ", e.n,
                " elements, whose shares on ", ranks, " ranks are both ", local, " long; make them one extent");
        found = e.n;
      }
    return found && ranks > 1 ? found : local * ranks;
  }
  static std::int64_t share(std::int64_t n, int ranks) { return (n + ranks - 1) / ranks; }

 private:
  struct extent {
    std::string_view dim;
    std::int64_t n;
  };
  std::vector<extent> known_;
};

}  // namespace weft
