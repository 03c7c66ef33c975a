// GPT-2 with dropout trains the same on every mesh: masks, biases and positions don't depend on the sharding.
#include "parallel/gpt2.hpp"

namespace {
using namespace weft;
using weft_test::fp64_gradient, weft_test::fp64_loss;
}  // namespace

TEST_CASE("gpt2 with a head of its own and without dropout") {
  gpt2_config c = weft_test::small_gpt2;
  c.tied_embeddings = false, c.dropout = 0;
  const weft_test::plan p{.batch = 4, .steps = 3};
  using plain = gpt2<strategy<mesh<dp, tp>, fp64>>;
  using full = gpt2<strategy<mesh<dp, tp>, fp64, zero3, checkpoint_full, sequence_parallel>>;
  const auto cleaned = [](auto o) { return weft_test::without_key_biases(std::move(o), fp64_gradient); };
  const auto serial = cleaned(weft_test::train_model<plain>({}, c, p));
  weft_test::check_equal(serial, cleaned(weft_test::train_model<full>({.dp = 2, .tp = 2}, c, p)), fp64_loss,
                         fp64_gradient);
}

TEST_CASE("gpt2 in bf16 with fp32 main gradients follows fp32") {
  const weft_test::plan p{.batch = 4, .steps = 4, .micro_batches = 2};
  const auto losses = [&]<class S>(const degrees& d) {
    return weft_test::train_model<gpt2<S>>(d, weft_test::small_gpt2, p).losses;
  };
  const auto wanted = losses.operator()<strategy<mesh<dp, tp>>>({});
  const auto got = losses.operator()<strategy<mesh<dp, tp>, bf16_mixed, zero3, sequence_parallel>>({.dp = 2, .tp = 2});
  REQUIRE(got.size() == wanted.size());
  // A logit is good to a few roundings of 2^-8, with either sign, and the loss is a mean over 128 tokens: well below 1
  // %.
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(0.01));
}

TEST_CASE("bug: dropout changes with the sharding, repeats itself, or stays on in evaluation") {
  using S = strategy<mesh<dp, tp>, fp64, zero3, sequence_parallel>;
  const auto losses = [](const degrees& d) {
    std::vector<double> out;
    launch<S>(d, [&](context& ctx) {
      gpt2<S> model(ctx, weft_test::small_gpt2);
      parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<zero3>());
      model.use(store);
      using ids = gpt2<S>::ids;
      const auto x = generate<ids>(ctx, {4, 16}, [](std::int64_t i) { return i * 7 % 48; });
      const auto loss = [&] {
        const double sum = item(all_reduce<dp>(cross_entropy(model(x), x).sum));
        if (ctx.is_first()) out.push_back(sum);
      };
      loss();  // 0
      loss();  // 1: another mask
      model.recorded_passes(0);
      loss();  // 2: as 0
      CHECK(model.recorded_passes() == 1);
      const recording off(ctx, nullptr);
      loss();  // 3: no dropout
      loss();  // 4: as 3
      CHECK(model.recorded_passes() == 1);
    });
    return out;
  };
  const auto alone = losses({}), shared = losses({.dp = 2, .tp = 2});
  for (const auto& l : {alone, shared}) {
    CHECK(l[0] != l[1]);
    CHECK(l[0] == l[2]);
    CHECK(l[0] != l[3]);
    CHECK(l[3] == l[4]);
  }
  for (std::size_t i = 0; i < alone.size(); ++i) CHECK(shared[i] == doctest::Approx(alone[i]).epsilon(1e-12));
}

TEST_CASE("gpt2: parameters are counted, biases don't decay, what can't be split is refused") {
  using S = strategy<mesh<tp>>;
  CHECK(gpt2_config{}.parameters() == 124439808);  // Hugging Face's count of gpt2
  launch<S>({.tp = 2}, [](context& ctx) {
    gpt2<S> model(ctx, weft_test::small_gpt2);
    std::int64_t all = 0;
    for (const parameter_unit& u : model.registry().units())
      for (const parameter_record& p : u.parameters) {
        all += p.global.elements();
        const bool is_vector = p.name.find("bias") != std::string::npos || p.name.find("norm") != std::string::npos;
        CAPTURE(p.name);
        CHECK(p.decays == !is_vector);
      }
    CHECK(all == weft_test::small_gpt2.parameters());
  });
  CHECK_THROWS_WITH_AS(gpt2_config{}.resolved(5), doctest::Contains("12 heads don't divide"), weft::failure);
  CHECK_THROWS_WITH_AS(gpt2_config{.dropout = 1}.resolved(), doctest::Contains("dropout rate"), weft::failure);
}
