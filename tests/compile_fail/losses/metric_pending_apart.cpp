// expect: a metric's sum and count are floating numbers that are pending over the same axes: all_reduce<axis> the one that is pending over more, cast<float>(x) integers
#include <weft/weft.hpp>
using namespace weft;
using S = strategy<mesh<dp>>;

struct measure {
  static constexpr std::string_view name = "measure";
  auto operator()(const auto& logits, const auto& targets) const {
    const auto nats = cross_entropy(logits, targets);
#ifdef WRONG
    return loss{nats.sum, all_reduce<dp>(nats.count)};
#else
    return nats;
#endif
  }
};
void program(context& ctx, llama<S>& model) {
  trainer training(ctx, model, adamw{}, token_cross_entropy{}, metric_list{measure{}});
  training.run(text_dataset(ctx, "corpus.txt"), {});
}
