// expect: a loss's sum and count are pending over the same axes, or neither is: all_reduce<axis> both, or leave both to the trainer
#include <weft/weft.hpp>
using namespace weft;
using S = strategy<mesh<dp>>;

struct my_loss {
  auto operator()(const any_tensor auto& logits, const any_tensor auto& targets) const {
    const auto nats = cross_entropy(logits, targets);
#ifdef WRONG
    return loss{nats.sum, all_reduce<dp>(nats.count)};
#else
    return loss{all_reduce<dp>(nats.sum), all_reduce<dp>(nats.count)};
#endif
  }
};
using trained = pipeline<llama<S>, my_loss>;
void program(context& ctx, llama<S>& model) { trained(ctx, model); }
