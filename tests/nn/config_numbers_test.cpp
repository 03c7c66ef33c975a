// Numbers of configurations that have no meaning are refused with a sentence, before anything is computed with them.
#include <cmath>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

const double not_a_number = std::nan(""), infinity = std::numeric_limits<double>::infinity();

template <class F>
void refuses(F&& f, const char* sentence) {
  CAPTURE(sentence);
  CHECK_THROWS_WITH_AS(f(), doctest::Contains(sentence), failure);
}
}  // namespace

TEST_CASE("llama: bases, epsilons and deviations") {
  for (const double bad : {0.0, -1.0, not_a_number, infinity}) {
    refuses([&] { llama_config{.rope_theta = bad}.resolved(); }, "rope_theta is ");
    refuses([&] { llama_config{.norm_eps = bad}.resolved(); }, "norm_eps is ");
    refuses([&] { gpt2_config{.norm_eps = bad}.resolved(); }, "norm_eps is ");
  }
  for (const double bad : {-0.5, not_a_number, infinity}) {
    refuses([&] { llama_config{.init_stddev = bad}.resolved(); }, "init_stddev is ");
    refuses([&] { gpt2_config{.init_stddev = bad}.resolved(); }, "init_stddev is ");
  }
  refuses([] { llama_config{.rope_theta = 0}.resolved(); }, "rope_theta is 0; it has to be a finite number above 0");
  CHECK_NOTHROW(llama_config{.init_stddev = 0}.resolved());
  refuses([] { gpt2_config{.dropout = not_a_number}.resolved(); }, "a dropout rate is from 0 to below 1");
}

TEST_CASE("rope scalings") {
  using enum rope_kind;
  const auto of = [](rope_scaling s) { llama_config{.max_seq = 64, .rope_scaling = s}.resolved(); };
  for (const double bad : {0.0, -2.0, not_a_number, infinity})
    refuses([&] { of({.kind = linear, .factor = bad}); }, "the rope scaling's factor is ");
  for (const double bad : {-1.0, not_a_number, infinity})
    refuses([&] { of({.kind = yarn, .factor = 2, .attention_factor = bad}); },
            "the rope scaling's attention_factor is ");
  refuses([&] { of({.kind = yarn, .factor = 2, .beta_fast = infinity}); }, "beta_fast");
  refuses([&] { of({.kind = yarn, .factor = 2, .beta_slow = not_a_number}); }, "beta_slow");
  refuses([&] { of({.kind = llama3, .factor = 2, .high_freq_factor = infinity}); }, "high_freq_factor");
  refuses([&] { of({.kind = yarn, .factor = 2, .original_max_seq = -1}); }, "original_max_seq is -1");
  refuses([] { llama_config{.rope_scaling = {.kind = yarn, .factor = 2}, .rope_theta = 1}.resolved(); },
          "yarn's rope scaling needs a rope_theta above 1");
  CHECK_NOTHROW(of({.kind = yarn, .factor = 4}));
}

TEST_CASE("dynamic scaling that can't begin is refused: Hugging Face's max_position_embeddings is original_max_seq") {
  const auto of = [](std::int64_t original, std::int64_t longest) {
    llama_config{.max_seq = longest,
                 .rope_scaling = {.kind = rope_kind::dynamic, .factor = 2, .original_max_seq = original}}
        .resolved();
  };
  refuses(
      [&] { of(0, 2048); },
      "dynamic rope scaling begins beyond original_max_seq tokens, and a max_seq of 2048 lets no sequence be longer: "
      "original_max_seq is what the model was trained on (Hugging Face's max_position_embeddings), max_seq what it is "
      "to read now");
  refuses([&] { of(2048, 2048); }, "a max_seq of 2048 lets no sequence be longer");
  refuses([&] { of(2048, 1024); }, "a max_seq of 1024 lets no sequence be longer");
  CHECK_NOTHROW(of(2048, 2049));
}

TEST_CASE("losses, optimizers, schedules, plans, samples") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    const auto x = ones<tensor<float, dims<batch, vocab>>>(ctx, {2, 3});
    const auto y = generate<tensor<std::int32_t, dims<batch>>>(ctx, {2}, [](std::int64_t) { return 1; });
    for (const double bad : {-0.1, 1.0, 1.5, not_a_number})
      refuses([&] { cross_entropy(x, y, {.label_smoothing = bad}); }, "label_smoothing is ");
    CHECK_NOTHROW(cross_entropy(x, y, {.label_smoothing = 0.9}));
  });
  for (const double bad : {-1.0, not_a_number, infinity}) {
    refuses([&] { check(adamw{.lr = bad}); }, "AdamW's lr is ");
    refuses([&] { check(adamw{.eps = bad}); }, "AdamW's eps is ");
    refuses([&] { check(adamw{.weight_decay = bad}); }, "AdamW's weight_decay is ");
    refuses([&] { check(adamw{.beta1 = bad}); }, "AdamW's beta1 is ");
    refuses([&] { check(training{.schedule = {.floor = bad}}); }, "the schedule's floor is ");
  }
  for (const double bad : {0.0, 1e-300}) refuses([&] { check(adamw{.eps = bad}); }, "AdamW's eps is ");
  for (const double bad : {not_a_number, -1.0, infinity})
    refuses([&] { check(training{.clip_norm = bad}); }, "clip_norm is ");
  refuses([] { check(training{.schedule = {.warmup = -1}}); }, "the schedule's warmup is -1");
  refuses([] { check(training{.validate_every = -1}); }, "validate_every is -1");
  refuses([] { check(training{.validation_sequences = -1}); }, "validation_sequences is -1");
  refuses([] { check(training{.steps = 0}); }, "a run of 0 steps");
  refuses([] { check(training{.batch = 0, .seq = 8}, 2); }, "batch is 0; a step has at least 1 sequence");
  refuses([] { check(trainer_state{.updates = -1}); }, "tells of -1 updates");
  for (const double bad : {0.0, -1.0, not_a_number, infinity})
    refuses([&] { check(trainer_state{.loss_scale = bad}); }, "a loss scale of ");
  refuses([] { check(training{.begin = -1, .seq = 8}, 2); }, "begin is -1; it is how many");
  refuses([] { check(training{.begin = 100}); }, "there is no step left");
  refuses([] { check(training{.callbacks = {nullptr}}); }, "a callback of the run is null");
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  refuses([] { check(training{.batch = most - 1, .seq = 8}, 2); }, "has more than 2^58 tokens");
  refuses([] { check(training{.seq = most}, 2); }, "has more than 2^58 tokens");
  refuses([] { check(training{.seq = 8, .validation_sequences = most}, 2); }, "more than 2^31 micro-batches of 8");
  refuses([] { check(training{.watch = {.spike_deviations = not_a_number}}); }, "spike_deviations is ");
  refuses([] { check(sampling{.repetition_penalty = infinity}); }, "repetition_penalty is ");
  for (const double bad : {not_a_number, -1.0})
    refuses([&] { check(sampling{.temperature = bad}); }, "temperature is ");
}

TEST_CASE("a schedule counts steps beyond what 32 bits hold") {
  const std::int64_t many = std::int64_t{1} << 33;
  const warmup_cosine s{.warmup = many / 2, .floor = 0.1};
  CHECK(s(many / 4, many) == doctest::Approx(0.5));
  CHECK(s(many / 4 * 3, many) == doctest::Approx(0.55));
  CHECK(s(many, many) == doctest::Approx(0.1));
  CHECK(adamw{}.at(many, 1).bias1 == 1);
}

TEST_CASE("an update by numbers that are none is refused before it reaches the weights") {
  refuses([] { adamw{}.at(0, 1e-3); }, "AdamW's steps count from 1, not from 0");
  for (const double bad : {not_a_number, infinity}) {
    refuses([&] { adamw{}.at(1, 1e-3, bad); }, "gradients are to be multiplied by ");
    refuses([&] { adamw{}.at(1, bad); }, "AdamW's lr is ");
  }
  refuses([] { adamw{}.at(1, -1e-3); }, "AdamW's lr is ");
  CHECK_NOTHROW(adamw{}.at(1, 0, 0));
}

TEST_CASE("a step's seed is a number, and not 0") {
  using S = strategy<mesh<>>;
  launch<S>({}, [](context& ctx) {
    llama<S> model(ctx, {.layers = 1, .hidden = 16, .heads = 2, .vocab = 32, .max_seq = 8});
    parameter_store<cpu_backend, fp32> store(ctx, model.registry(), config_of<replicated>());
    model.use(store);
    pipeline stages(ctx, model);
    const auto read = [&](int) {
      const auto x = generate<llama<S>::ids>(ctx, {2, 8}, [](std::int64_t i) { return i; });
      return token_batch<llama<S>::ids>{x, x};
    };
    for (const double bad : {0.0, not_a_number, infinity}) {
      store.begin_step(1);
      refuses([&] { stages.train(1, bad, read, [&](int) { store.end_micro_batch(); }); },
              "the loss is to be multiplied by ");
    }
  });
}
