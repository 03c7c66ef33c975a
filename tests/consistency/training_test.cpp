// Numbers that no type can see, in training: what a parameter store and a trainer take to be the same on every rank.
#include <algorithm>
#include <vector>

#include <weft/train/trainer.hpp>

#include "consistency/caught.hpp"

using namespace weft;
using weft_test::caught;
using weft_test::passes;

namespace {

constexpr llama_config tiny{.layers = 2, .hidden = 16, .heads = 4, .kv_heads = 4, .ffn = 16, .vocab = 16, .max_seq = 8};

// A step of a small Llama on data that token(rank, i) says; before(store) has the last word before the optimizer.
template <class S, class Token, class Before>
auto one_step(const Token& token, const Before& before) {
  return [=](context& ctx) {
    llama<S> model(ctx, tiny);
    parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    const auto batch_of = [&](int ahead) {
      return generate<token_ids<S>>(ctx, {4, 8}, [&](std::int64_t i) { return token(ctx, i + ahead) % 16; });
    };
    store.begin_step(1);
    backward(cross_entropy(model(batch_of(0)), batch_of(1)).sum);
    store.end_micro_batch();
    store.finish_gradients();
    adamw_step step = adamw().at(1, 0.25, 1.0 / 32);
    before(ctx, store, step);
    store.step(step);
  };
}
const auto same_tokens = [](context&, std::int64_t i) { return i * 5; };
const auto nothing = [](context&, auto&, adamw_step&) {};

// A trainer's data.
struct counting {
  context* on;
  template <any_tensor Ids>
  token_batch<Ids> train(std::int64_t, std::int64_t, std::int64_t n, std::int64_t length) const {
    return {generate<Ids>(*on, {n, length}, [](std::int64_t i) { return i % 16; }),
            generate<Ids>(*on, {n, length}, [](std::int64_t i) { return (i + 1) % 16; })};
  }
  bool can_validate(std::int64_t) const { return false; }
  template <any_tensor Ids>
  token_batch<Ids> validation(std::int64_t first, std::int64_t n, std::int64_t length) const {
    return train<Ids>(0, first, n, length);
  }
};

// Adds to the first number that a rank keeps of a parameter.
template <class Store>
void drift(Store& store, const std::string& name) {
  store.each_stored([&](const stored_parameter& p) {
    if (p.record.name == name && p.begin == 0) *p.weight.template as<float>() += 1;
  });
}

}  // namespace

TEST_CASE("training, kind 1: a replica's weight has drifted") {
  using S = strategy<mesh<dp, tp>, replicated>;
  caught<S>({.dp = 3},
            one_step<S>(same_tokens,
                        [](context& ctx, auto& store, adamw_step&) {
                          if (ctx.rank() == 1) drift(store, "layers.1.down");
                        }),
            "check: the optimizer's step takes the weight layers.1.down to be the same on every rank along dp, and it "
            "is not: at [0] ranks 0, 2 have ");
}
TEST_CASE("training, kind 2: a norm's weight has drifted along tp, where it is sharded nowhere") {
  using S = strategy<mesh<dp, tp>, zero1>;
  caught<S>({.dp = 2, .tp = 2},
            one_step<S>(same_tokens,
                        [](context& ctx, auto& store, adamw_step&) {
                          if (ctx.index<tp>() == 1) drift(store, "layers.0.attention_norm");
                        }),
            "check: the optimizer's step takes the weight layers.0.attention_norm to be the same on every rank along "
            "tp, and it is not: at [0] rank ");
}
TEST_CASE("training, kind 2, of weights in few bits: scales have drifted, along axes that cut what they are of") {
  const auto scaled = []<class S>(S, auto drifts) {
    return [=](context& ctx) {
      llama<S> model(ctx, tiny);
      parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(),
                                                                config_of<typename S::sharding>());
      model.use(store);
      store.load_quantised([&](const stored_parameter& p) {
        for (const local_array& x : {p.codes, p.levels})
          if (x) std::fill_n(x.as<std::uint8_t>(), x.elements(), std::uint8_t{3});
        std::fill_n(p.scales.as<float>(), p.scales.elements(), 0.25f);
        if (p.record.name == "layers.1.down" && drifts(ctx)) p.scales.as<float>()[1] = 0.5f;
        return true;
      });
      store.each_parameter([](const parameter_record&, const auto&, const auto&) {});
    };
  };
  const std::string scales = " takes the scales of layers.1.down to be the same on every rank along ";
  const auto never = [](context&) { return false; };
  using stored_in_shares = strategy<mesh<dp, tp>, zero3, nf4<lora<2>>>;
  passes<stored_in_shares>({.dp = 3}, scaled(stored_in_shares{}, never));
  caught<stored_in_shares>({.dp = 3}, scaled(stored_in_shares{}, [](context& ctx) { return ctx.index<dp>() == 1; }),
                           "check: each_parameter" + scales + "dp, and it is not: at [1] ranks 0, 2 have 0.25");
  using along_two_axes = strategy<mesh<dp, fsdp, tp>, hybrid, nf4<lora<2>>>;
  passes<along_two_axes>(degrees{.dp = 2}.with<fsdp>(2), scaled(along_two_axes{}, never));
  caught<along_two_axes>(degrees{.dp = 2}.with<fsdp>(2),
                         scaled(along_two_axes{}, [](context& ctx) { return ctx.index<fsdp>() == 1; }),
                         "check: each_parameter" + scales + "fsdp, and it is not: at [1] rank ");
  using cut_by_type = strategy<mesh<dp, tp>, replicated, int8<lora<2>>>;
  passes<cut_by_type>({.dp = 2, .tp = 2}, scaled(cut_by_type{}, never));
  caught<cut_by_type>({.dp = 2, .tp = 2}, scaled(cut_by_type{}, [](context& ctx) { return ctx.index<tp>() == 1; }),
                      "check: each_parameter" + scales + "tp, and it is not: at [1] rank ");
}
TEST_CASE("training, kind 3: a learning rate of each rank's own") {
  using S = strategy<mesh<dp, tp>, zero3>;
  caught<S>({.dp = 2, .tp = 2},
            one_step<S>(same_tokens, [](context& ctx, auto&, adamw_step& s) { s.lr = ctx.rank().here(); }),
            "check: the optimizer's step takes lr to be the same on every rank along the world, and it is not: rank 0 "
            "has 0, rank 1 has 1, rank 2 has 2, rank 3 has 3");
}
TEST_CASE("training, kind 4: gradients clipped by the norm of each rank's own share") {
  using S = strategy<mesh<dp, tp>, zero2>;
  caught<S>({.dp = 2},
            one_step<S>(same_tokens,
                        [](context&, auto& store, adamw_step& s) {
                          double squares = 0;
                          store.each_stored([&](const stored_parameter& p) {
                            for (std::int64_t i = 0; i < p.gradient.elements(); ++i) {
                              const double g = static_cast<double>(p.gradient.template as<float>()[i]);
                              squares += g * g;
                            }
                          });
                          s.grad_scale = 1 / std::sqrt(squares);
                        }),
            "check: the optimizer's step takes the gradients' factor to be the same on every rank along the world, and "
            "it is not: rank 0 has ");
}
TEST_CASE("training, kind 5: a gradient changed on one rank after it was summed") {
  using S = strategy<mesh<dp, tp>, replicated>;
  caught<S>({.dp = 2},
            one_step<S>(same_tokens,
                        [](context& ctx, auto& store, adamw_step&) {
                          store.each_stored([&](const stored_parameter& p) {
                            if (ctx.rank() == 0 && p.record.name == "embedding") p.gradient.template as<float>()[3] = 8;
                          });
                        }),
            "check: the optimizer's step takes the gradient of embedding to be the same on every rank along dp, and it "
            "is not: at [3] rank 0 has 8, rank 1 has ");
}
TEST_CASE("training, kind 6: tokens shuffled by each rank of tp") {
  using S = strategy<mesh<dp, tp>>;
  caught<S>({.dp = 2, .tp = 2},
            one_step<S>([](context& ctx, std::int64_t i) { return i * (5 + ctx.index<tp>().here()); }, nothing),
            "check: in embedding, LINE, embedding takes [batch, seq] to be the same on every rank along tp, and it is "
            "not: at "
            "[0, 1] rank ");
}
TEST_CASE("training, kind 7: a seed of each rank's own, where every rank makes its own share of the weights") {
  using S = strategy<mesh<dp, tp>, zero3>;
  caught<S>(
      {.dp = 2},
      [](context& ctx) {
        ctx.seed += static_cast<std::uint64_t>(ctx.rank().here());
        one_step<S>(same_tokens, nothing)(ctx);
      },
      "check: backward takes the context's seed to be the same on every rank along dp, and it is not: rank 0 has "
      "1, rank 1 has 2");
}
TEST_CASE("training, kind 8: weights to be saved that differ") {
  using S = strategy<mesh<dp, tp>, replicated>;
  caught<S>(
      {.dp = 2},
      [](context& ctx) {
        llama<S> model(ctx, tiny);
        parameter_store<cpu_backend, fp32> store(ctx, model.registry(), config_of<replicated>());
        if (ctx.rank() == 1) drift(store, "norm");
        store.each_parameter([](const parameter_record&, auto, auto) {});
      },
      "check: each_parameter takes the weight norm to be the same on every rank along dp, and it is not: at "
      "[0] rank 0 has 1, rank 1 has 2");
}
TEST_CASE("training, kind 9: an optimizer of each rank's own, in a trainer") {
  using S = strategy<mesh<dp, tp>, zero1>;
  caught<S>(
      {.dp = 2},
      [](context& ctx) {
        llama<S> model(ctx, tiny);
        trainer t(ctx, model, {.lr = 1e-3, .weight_decay = 0.25 * (1 + ctx.rank().here())});
        const counting data{&ctx};
        t.run(data, {.steps = 1, .batch = 4, .validation_sequences = 0, .print = false});
      },
      "check: the optimizer's step takes weight_decay to be the same on every rank along the world, and it is "
      "not: rank 0 has 0.25, rank 1 has 0.5");
}

TEST_CASE("training, kind 10: a configuration of each rank's own") {
  using S = strategy<mesh<dp, tp>>;
  caught<S>(
      {.tp = 2},
      [](context& ctx) {
        llama_config c = tiny;
        c.rope_theta += ctx.rank().here();
        llama<S>(ctx, c);
      },
      "check: llama takes rope_theta to be the same on every rank along the world, and it is not: rank 0 has 10000, "
      "rank 1 has 10001");
  caught<S>(
      {.dp = 2},
      [](context& ctx) {
        gpt2<S>(ctx, {.layers = 1, .hidden = 8, .heads = 2 << ctx.rank().here(), .vocab = 16, .max_seq = 8});
      },
      "check: gpt2 takes heads to be the same on every rank along the world, and it is not: rank 0 has 2, rank 1 has "
      "4");
}
TEST_CASE("training, kind 11: another rope table on each rank, in a model of one's own") {
  using X = tensor<float, dims<batch, seq, heads, head_dim>>;
  caught<strategy<mesh<tp>>>(
      {.tp = 2},
      [](context& ctx) {
        auto x = ones<X>(ctx, {1, 4, 1, 4}).requires_grad();
        const auto table = make_rope_table<float>(ctx, {{1, 0.5 / (1 + ctx.rank().here())}, 1}, 4);
        backward(0 * sum(rope(x, table)));
      },
      "check: backward takes what it backpropagates to be the same on every rank along tp, and it is not: as step 2 "
      "rank "
      "0 has rope of [1, 4, 1, 4], rank 1 has rope of [1, 4, 1, 4] with another number (weights that are meant to "
      "differ are a sharded tensor)");
}

TEST_CASE("steps of right programs pass, under every sharding, with stages and with recomputation") {
  passes<strategy<mesh<dp, tp>, zero3, bf16_mixed, checkpoint_full, sequence_parallel>>(
      {.dp = 2, .tp = 2},
      one_step<strategy<mesh<dp, tp>, zero3, bf16_mixed, checkpoint_full, sequence_parallel>>(same_tokens, nothing));
  passes<strategy<mesh<dp, tp>, zero1, checkpoint_selective>>(
      {.dp = 3, .tp = 2}, one_step<strategy<mesh<dp, tp>, zero1, checkpoint_selective>>(same_tokens, nothing));
}
