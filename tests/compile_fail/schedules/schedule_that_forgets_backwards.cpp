// expect: weft: the pipeline schedule leaves a micro-batch out, does one twice or out of order, or its stages wait for each other for ever
// The compiler follows the schedule on one, two and four stages.
#include <weft/weft.hpp>
using namespace weft;

struct own_schedule {
  static constexpr std::string_view name = "own";
  template <class Emit>
  static constexpr void order(int, int, int micro_batches, Emit&& emit) {
    using enum pipeline_action::kind;
    for (int m = 0; m < micro_batches; ++m) emit(pipeline_action{forward, m});
#ifdef WRONG
    emit(pipeline_action{backward, 0});
#else
    for (int m = 0; m < micro_batches; ++m) emit(pipeline_action{backward, m});
#endif
  }
};

void program(context& ctx, llama<strategy<mesh<pp>, own_schedule>>& model) { pipeline stages(ctx, model); }
