// expect: weft: the compiler follows a pipeline schedule's order, and can't run this one: write it as template <class Emit> static constexpr void order(int stage, int stages, int micro_batches, Emit&& emit)
#include <weft/weft.hpp>
using namespace weft;

struct own_schedule {
  static constexpr std::string_view name = "own";
#ifdef WRONG
  template <class Emit>
  static void order(int, int, int micro_batches, Emit&& emit){
#else
  template <class Emit>
  static constexpr void order(int, int, int micro_batches, Emit&& emit) {
#endif
      using enum pipeline_action::kind;
  for (int m = 0; m < micro_batches; ++m) emit(pipeline_action{forward, m});
  for (int m = 0; m < micro_batches; ++m) emit(pipeline_action{backward, m});
}
}
;

void program(context& ctx, llama<strategy<mesh<pp>, own_schedule>>& model) { pipeline stages(ctx, model); }
