// A schedule of one's own: one forward, one backward, whose backwards are in two parts on all stages but the first, so
// that the stage before waits for the first part only.
#pragma once

#include <weft/policy/schedule.hpp>

namespace weft_test {

struct in_parts {
  static constexpr std::string_view name = "in_parts";
  template <class Emit>
  static constexpr void order(int stage, int stages, int micro_batches, Emit&& emit) {
    using enum weft::pipeline_action::kind;
    weft::one_f_one_b::order(stage, stages, micro_batches, [&](weft::pipeline_action a) {
      if (a.what == forward || stage == 0) return emit(a);
      emit(weft::pipeline_action{backward_inputs, a.micro_batch});
      emit(weft::pipeline_action{backward_weights, a.micro_batch});
    });
  }
};

}  // namespace weft_test
