// Three training steps of one model on one rank, on a mesh whose three axes have one rank each ("axes") or on one
// without axes ("none"); callgrind counts the last two. Run by one_rank_cost_test.sh.
#include <string_view>
#include <valgrind/callgrind.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

template <class S>
void train() {
  launch<S>({}, [&](context& ctx) {
    llama<S> model(ctx, {.layers = 2, .hidden = 64, .heads = 4, .vocab = 256, .max_seq = 32});
    parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    pipeline<llama<S>> stages(ctx, model);
    using ids = typename llama<S>::ids;
    struct token_pair {
      ids tokens, targets;
    };
    const auto x = generate<ids>(ctx, {2, 32}, [](std::int64_t i) { return i * 7 % 256; });
    for (int step = 1; step <= 3; ++step) {
      if (step == 2) CALLGRIND_START_INSTRUMENTATION;
      store.begin_step(2);
      const loss_sums own = stages.train(
          2, 1,
          [&](int) {
            return token_pair{x, x};
          },
          [&](int) { store.end_micro_batch(); });
      const double count = finished<typename pipeline<llama<S>>::loss_tensor>(ctx, own).count;
      store.finish_gradients();
      store.step(adamw{}.at(step, 1e-3, 1 / (count * (1 + store.gradient_norm()))));
    }
    CALLGRIND_STOP_INSTRUMENTATION;
  });
}
}  // namespace

int main(int, char** argument) {
  if (std::string_view(argument[1]) == "axes")
    train<strategy<mesh<dp, pp, tp>>>();
  else
    train<strategy<mesh<>>>();
}
