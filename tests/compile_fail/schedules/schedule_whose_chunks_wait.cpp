// expect: weft: the pipeline schedule leaves a micro-batch out, does one twice or out of order, or its stages wait for each other for ever
// Two chunks a rank: the second one's backward of a micro-batch comes before the first one's.
#include <weft/weft.hpp>
using namespace weft;

struct own_schedule {
  static constexpr std::string_view name = "own";
  static constexpr int chunks = 2;
  template <class Emit>
  static constexpr void order(int, int, int micro_batches, Emit&& emit) {
    using enum pipeline_action::kind;
    for (int c = 0; c < 2; ++c)
      for (int m = 0; m < micro_batches; ++m) emit(pipeline_action{forward, m, c});
#ifdef WRONG
    for (int c = 0; c < 2; ++c)
#else
    for (int c = 1; c >= 0; --c)
#endif
      for (int m = 0; m < micro_batches; ++m) emit(pipeline_action{backward, m, c});
  }
};

void program(context& ctx, llama<strategy<mesh<pp>, own_schedule>>& model) { pipeline stages(ctx, model); }
