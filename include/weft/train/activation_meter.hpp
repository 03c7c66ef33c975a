// Statistics of what a model's units pass on. Invariant: of nested units only the outer one's output is measured.
#pragma once

#include <weft/nn/parameters.hpp>
#include <weft/train/share_statistics.hpp>
#include <weft/train/unit_statistics.hpp>

namespace weft {

/// While it observes: adds the output of every unit's forward to `parts`, over as many micro-batches as there are. An
/// output that is left partial is measured as the addends that the ranks hold.
class activation_meter final : public unit_observer {
 public:
  /// of: statistics_of<the model's backend>.
  activation_meter(context& ctx, const parameter_registry& registry, measured_parts& parts, statistics_function of)
      : ctx_(ctx), registry_(registry), parts_(parts), of_(of) {}

  void forward_begins(int, const value&) override { ++depth_; }
  WEFT_LINKED void forward_ends(int unit, const value& y, const std::vector<axis_id>& cut,
                                const placed_slice& at) override {
    if (--depth_ > 0) return;
    const std::string& name = registry_.units()[static_cast<std::size_t>(unit)].name;
    parts_.add(ctx_, name, measured::activation, cut, nullptr, statistics_of(ctx_, y.held(), at, 0, of_));
  }
  void backward_begins(int, const local_array*) override {}
  void backward_ends(int, const local_array*) override {}

 private:
  context& ctx_;
  const parameter_registry& registry_;
  measured_parts& parts_;
  statistics_function of_;
  int depth_ = 0;
};

}  // namespace weft
