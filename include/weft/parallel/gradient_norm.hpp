// The global gradient norm from placements. Invariant: a parameter's squares are summed over an axis exactly when the ranks
// along it hold different parts of it; where they hold the same, they count once.
#pragma once

#include <cmath>

#include <weft/comm/context.hpp>

namespace weft {

class gradient_norm_parts {
 public:
  /// Adds this rank's sum of squares of one parameter. `sharded`: the axes its type is sharded over; `storage`: one more,
  /// over which its storage is, or null.
  void add(double squares, std::vector<axis_id> sharded, axis_id storage) {
    if (storage) sharded.push_back(storage);
    std::sort(sharded.begin(), sharded.end(), std::less<>{});
    for (part& p : parts_)
      if (p.axes == sharded) {
        p.squares += squares;
        return;
      }
    parts_.push_back({std::move(sharded), squares});
  }

  /// Sum over all parts, each finished over its axes. The same on every rank. All ranks add the same parameters.
  double total(context& rank) {
    double all = 0;
    for (part& p : parts_) {
      for (const axis_group& g : rank.axes())
        if (std::find(p.axes.begin(), p.axes.end(), g.axis) != p.axes.end())
          if (axis_group* group = rank.group(g.axis)) group->comm.all_reduce(&p.squares, &p.squares, 1, dtype::f64, reduction::sum).wait();
      all += p.squares;
    }
    return all;
  }

 private:
  struct part {
    std::vector<axis_id> axes;
    double squares;
  };
  std::vector<part> parts_;
};

}  // namespace weft
