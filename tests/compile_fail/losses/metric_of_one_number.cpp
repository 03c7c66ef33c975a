// expect: a metric gives back loss{sum, count}: two scalars, of what is counted and of how many
#include <weft/weft.hpp>
using namespace weft;
using S = strategy<mesh<dp>>;

struct measure {
  static constexpr std::string_view name = "measure";
  auto operator()(const auto& logits, const auto& targets) const {
    const auto nats = cross_entropy(logits, targets);
#ifdef WRONG
    return nats.sum;
#else
    return nats;
#endif
  }
};
void program(context& ctx, llama<S>& model) {
  trainer training(ctx, model, adamw{}, token_cross_entropy{}, metric_list{measure{}});
  training.run(text_dataset(ctx, "corpus.txt"), {});
}
