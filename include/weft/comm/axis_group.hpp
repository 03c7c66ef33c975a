// A rank's place among the ranks along one axis, or along several taken as one. Invariant: index and degree are those
// of its communicator.
#pragma once

#include <string>
#include <vector>

#include <weft/comm/any.hpp>
#include <weft/core/axis_set.hpp>

namespace weft {

/// Along a set of axes `axis` is null.
struct axis_group {
  axis_id axis = nullptr;
  std::string name = {};
  int degree = 1;
  int index = 0;
  int stride = 1;  // from one of its ranks to the next, in the world; of one axis
  any_communicator comm = {};

  /// Whether its ranks hold different parts of a tensor that is sharded over `sharded` and stored in shares along
  /// `stored_over`.
  bool cuts(const std::vector<axis_id>& sharded, const axis_set& stored_over) const {
    if (degree == 1) return false;
    for (const axis_id a : sharded)
      if (a == axis) return true;
    return stored_over.has(axis);
  }
};

namespace detail {
// That a group is the one that was asked for: all that follows relies on its order.
[[gnu::cold]] WEFT_LINKED void check_split(const any_communicator& made, const std::string& name, int index,
                                           int degree) {
  require(made.rank() == index && made.size() == degree, "split(color, key, \"", name, "\") made this rank number ",
          made.rank(), " of ", made.size(), ", where number ", index, " of ", degree,
          " was asked for: a group has the ranks of one color, ordered by (key, rank); mend the communicator's split");
}
}  // namespace detail

}  // namespace weft
