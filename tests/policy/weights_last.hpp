// A schedule of one's own, written against the concept alone: all forwards, then all backwards, weights last of all.
#pragma once

#include <weft/policy/schedule.hpp>

namespace weft_test {

struct weights_last {
  static constexpr std::string_view name = "weights_last";
  template <class Emit>
  static constexpr void order(int, int, int micro_batches, Emit&& emit) {
    using enum weft::pipeline_action::kind;
    for (const auto what : {forward, backward_inputs, backward_weights})
      for (int m = 0; m < micro_batches; ++m) emit(weft::pipeline_action{what, m});
  }
};

}  // namespace weft_test
