// A schedule of one's own with two chunks of layers a rank: all micro-batches through one chunk, then through the next
// (breadth-first, Lamy-Poirier 2022), so that what a rank sends has long arrived when it is needed.
#pragma once

#include <weft/policy/schedule.hpp>

namespace weft_test {

struct breadth_first {
  static constexpr std::string_view name = "breadth_first";
  static constexpr int chunks = 2;
  template <class Emit>
  static constexpr void order(int /*rank*/, int /*ranks*/, int micro_batches, Emit&& emit) {
    using enum weft::pipeline_action::kind;
    for (int c = 0; c < chunks; ++c)
      for (int m = 0; m < micro_batches; ++m) emit(weft::pipeline_action{forward, m, c});
    for (int c = chunks; c-- > 0;)
      for (int m = 0; m < micro_batches; ++m) emit(weft::pipeline_action{backward, m, c});
  }
};

}  // namespace weft_test
