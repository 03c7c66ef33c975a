// Who looks at what flows through a model's units: activations forward, their gradients backward. Null where nobody
// asked, and then a unit costs a comparison. Invariant: an observer changes nothing.
#pragma once

#include <utility>
#include <vector>

#include <weft/backend/concept.hpp>
#include <weft/tensor/context.hpp>

namespace weft {

/// Told by `in_unit`, on every rank of its own units. A unit may run within another one (tied embeddings); then the
/// calls nest.
class unit_observer {
 public:
  virtual ~unit_observer() = default;
  /// `x` flows in; the unit's weights are resident.
  virtual void forward_begins(int unit, const value& x) = 0;
  /// `y` flows out. `cut`: the axes along which the ranks hold different parts of it, or different addends; `at`: where
  /// this rank's lies.
  virtual void forward_ends(int unit, const value& y, const std::vector<axis_id>& cut, const placed_slice& at) = 0;
  /// The gradient of what flowed out; null where there is none.
  virtual void backward_begins(int unit, const local_array* gradient) = 0;
  /// The gradient of what flowed in, or null; those of the unit's weights are in their slots, not yet summed over
  /// ranks.
  virtual void backward_ends(int unit, const local_array* gradient) = 0;
};

/// Lets `by` look for the life of the object.
class observing {
 public:
  observing(context& ctx, unit_observer* by) : ctx_(ctx), before_(std::exchange(ctx.observer, by)) {}
  ~observing() { ctx_.observer = before_; }
  observing(const observing&) = delete;
  observing& operator=(const observing&) = delete;

 private:
  context& ctx_;
  unit_observer* before_;
};

namespace detail {

/// The axes on which a layout's ranks hold different things.
template <class Layout>
std::vector<axis_id> cut_axes() {
  std::vector<axis_id> cut;
  [&]<class... As>(tag_list<As...>) {
    ((state_on<Layout, As>.kind == holds::shard || state_on<Layout, As>.kind == holds::partial
          ? cut.push_back(id_of<As>)
          : void()),
     ...);
  }(axes_of<Layout>{});
  return cut;
}

inline const local_array* pending_gradient(const ref<slot>& s) { return s && s->has_gradient ? &s->gradient : nullptr; }

}  // namespace detail
}  // namespace weft
