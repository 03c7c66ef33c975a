// expect: weft: the pipeline schedule leaves a micro-batch out, does one twice or out of order, or its stages wait for each other for ever
#include <weft/weft.hpp>

struct forgetful {
  static constexpr std::string_view name = "forgetful";
  template <class Emit>
  static constexpr void order(int, int, int micro_batches, Emit&& emit) {
    for (int m = 0; m < micro_batches; ++m) emit(weft::pipeline_action{weft::pipeline_action::kind::forward, m});
  }
};

void run(weft::context& rank, weft::llama<weft::strategy<weft::mesh<weft::pp>, forgetful>>& model) { weft::pipeline stages(rank, model); }
