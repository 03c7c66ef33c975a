// Vocabularies and sequences that the ranks don't divide train as on one rank.
#include <weft/train/generate.hpp>

#include "parallel/gpt2.hpp"
#include "sample.hpp"

namespace {
using namespace weft;
using weft_test::check_equal, weft_test::fp64_gradient, weft_test::fp64_loss;

using plain = strategy<mesh<dp, tp>, fp64>;
using sharded = strategy<mesh<dp, tp, pp>, fp64, zero3, checkpoint_selective, sequence_parallel>;

template <class S>
weft_test::output llama_run(const degrees& d, bool tied, std::int64_t words, const weft_test::plan& p) {
  weft_test::task t;
  t.model.vocab = words, t.model.tied_embeddings = tied;
  return weft_test::train_model<llama<S>>(d, t.model, p);
}
template <class S>
weft_test::output gpt2_run(const degrees& d, bool tied, std::int64_t words, const weft_test::plan& p) {
  gpt2_config c = weft_test::small_gpt2;
  c.vocab = words, c.tied_embeddings = tied;
  return weft_test::without_key_biases(weft_test::train_model<gpt2<S>>(d, c, p), fp64_gradient);
}

// 47 words: one place of padding on the last rank. 9 on four ranks, 3 a rank: the last one holds nothing but padding.
struct uneven {
  degrees on;
  std::int64_t words;
};
constexpr uneven cases[] = {{{.dp = 2, .tp = 2}, 47}, {{.tp = 4}, 47}, {{.tp = 4}, 9}};
}  // namespace

TEST_CASE("a vocabulary that the ranks don't divide") {
  const weft_test::plan p{.batch = 4, .steps = 4, .micro_batches = 2};
  for (std::size_t i = 0; i < std::size(cases); i += std::size_t(weft_test::sample_stride()))
    for (const bool tied : {false, true}) {
      const degrees& on = cases[i].on;
      const std::int64_t words = cases[i].words;
      CAPTURE(words);
      CAPTURE(tied);
      const auto one = llama_run<plain>({}, tied, words, p), two = gpt2_run<plain>({}, tied, words, p);
      check_equal(one, llama_run<plain>(on, tied, words, p), fp64_loss, fp64_gradient);
      check_equal(one, llama_run<sharded>(on, tied, words, p), fp64_loss, fp64_gradient);
      check_equal(one, llama_run<sharded>({.tp = on.tp, .pp = 2}, tied, words, p), fp64_loss, fp64_gradient);
      check_equal(two, gpt2_run<plain>(on, tied, words, p), fp64_loss, fp64_gradient);
      check_equal(two, gpt2_run<sharded>(on, tied, words, p), fp64_loss, fp64_gradient);
    }
}

TEST_CASE("a sequence that the ranks which share it don't divide") {
  for (const int length : weft_test::sampled_cases({15, 2, 13})) {
    const weft_test::plan p{.batch = 4, .seq = length, .steps = 4, .micro_batches = 2};
    CAPTURE(length);
    check_equal(llama_run<plain>({}, false, 48, p), llama_run<sharded>({.tp = 4}, false, 48, p), fp64_loss,
                fp64_gradient);
    check_equal(gpt2_run<plain>({}, true, 48, p), gpt2_run<sharded>({.dp = 2, .tp = 4}, true, 48, p), fp64_loss,
                fp64_gradient);
    check_equal(gpt2_run<plain>({}, true, 48, p), gpt2_run<sharded>({.tp = 4, .pp = 2}, true, 48, p), fp64_loss,
                fp64_gradient);
  }
}

TEST_CASE("text from a model whose vocabulary three ranks share") {
  const auto text = [](const degrees& d) {
    std::string out;
    launch<plain>(d, [&](context& ctx) {
      llama<plain> model(
          ctx, {.layers = 1, .hidden = 24, .heads = 3, .ffn = 48, .vocab = 256, .max_seq = 32, .init_stddev = 0.5});
      parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
      model.use(store);
      const std::string said = weft::generate(model, "weft", {.tokens = 40, .temperature = 2});
      if (ctx.is_first()) out = said;
    });
    return out;
  };
  CHECK(text({.tp = 3}) == text({}));
}
