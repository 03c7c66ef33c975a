// A training whose steps are CUDA graphs beside the same without: the same bits, one executable graph, and nobody who
// waits inside a step.
#pragma once

#include "small_training.hpp"

namespace weft_test {

template <class Model, class Config>
void check_as_graphs(const Config& config) {
  using namespace weft;
  using S = typename Model::strategy;
  const auto trained = [&](bool graph) {
    std::vector<std::uint64_t> bits;
    launch<S>({},
              [&](context& ctx) {
                Model model(ctx, config);
                trainer t(ctx, model, adamw{});
                const training_result r =
                    t.run(text_dataset(ctx, rhyme()),
                          {.steps = 6, .batch = 8, .micro_batches = 2, .print = false, .step_graph = graph});
                for (const double x : {r.loss, r.validation_loss}) bits.push_back(std::bit_cast<std::uint64_t>(x));
                t.store().each_parameter([&](const parameter_record&, auto, auto weight) {
                  for (const auto x : weight) bits.push_back(std::bit_cast<std::uint64_t>(static_cast<double>(x)));
                });
                const graph_counts graphs = ctx.queue<typename S::backend>().graphs();
                CHECK(graphs.launches == (graph ? 4 : 0));
                CHECK(graphs.instantiations == graph);
                CHECK(graphs.flushes == 0);
              },
              {.check = false});
    return bits;
  };
  const auto without = trained(false);
  CHECK(without.size() > 1000);
  CHECK(trained(true) == without);
}

}  // namespace weft_test
