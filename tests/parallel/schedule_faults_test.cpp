// Schedules that the compiler can't refuse: right for the sizes that it tries and wrong for that of the step, or
// another at each call. What they leave out is said, with the stage and the micro-batch.
#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;
using enum pipeline_action::kind;

// All forwards, then the backwards that `Left` lets by.
template <class Left>
struct gpipe_but {
  static constexpr std::string_view name = Left::name;
  template <class Emit>
  static constexpr void order(int stage, int stages, int micro_batches, Emit&& emit) {
    for (int m = 0; m < micro_batches; ++m) emit(pipeline_action{forward, m});
    for (int m = 0; m < micro_batches; ++m) {
      if (!Left::out(stage, stages, micro_batches, m)) emit(pipeline_action{backward, m});
    }
  }
};
struct last_of_four : gpipe_but<last_of_four> {
  static constexpr std::string_view name = "last_of_four";
  static constexpr bool out(int stage, int stages, int n, int m) { return stage == stages - 1 && n == 4 && m == 3; }
};
struct twice_of_five {  // one micro-batch twice, the next never
  static constexpr std::string_view name = "twice_of_five";
  template <class Emit>
  static constexpr void order(int stage, int stages, int micro_batches, Emit&& emit) {
    one_f_one_b::order(stage, stages, micro_batches, [&](pipeline_action a) {
      if (micro_batches == 5 && a.micro_batch == 3) a.micro_batch = 2;
      emit(a);
    });
  }
};
struct beyond_five {
  static constexpr std::string_view name = "beyond_five";
  template <class Emit>
  static constexpr void order(int stage, int stages, int micro_batches, Emit&& emit) {
    one_f_one_b::order(stage, stages, micro_batches == 5 ? 6 : micro_batches, emit);
  }
};
struct stuck_from_three {  // the first stage wants each micro-batch back at once
  static constexpr std::string_view name = "stuck_from_three";
  template <class Emit>
  static constexpr void order(int stage, int stages, int micro_batches, Emit&& emit) {
    if (micro_batches != 3 || stage > 0) return last_of_four::order(stage, stages, micro_batches, emit);
    for (int m = 0; m < micro_batches; ++m) emit(pipeline_action{forward, m}), emit(pipeline_action{backward, m});
  }
};

struct gpipe : gpipe_but<gpipe> {
  static constexpr std::string_view name = "gpipe";
  static constexpr bool out(int, int, int, int) { return false; }
};

thread_local int calls = 0;
struct another_each_time : gpipe_but<another_each_time> {  // whole whenever it is tried, and not when it is carried out
  static constexpr std::string_view name = "another_each_time";
  static constexpr bool out(int, int, int, int m) { return m == 1 && !std::is_constant_evaluated() && ++calls > 1; }
};

// Steps with these numbers of micro-batches, of sequences of eight tokens.
template <class Schedule>
void steps(const degrees& ranks, std::initializer_list<int> of, int& read, int bad_token_at = -1) {
  using S = strategy<mesh<dp, pp>, Schedule>;
  launch<S>(ranks, [&](context& ctx) {
    llama<S> model(ctx, {.layers = 2, .hidden = 16, .heads = 2, .vocab = 32, .max_seq = 8});
    parameter_store<cpu_backend, fp32> store(ctx, model.registry(), config_of<replicated>());
    model.use(store);
    pipeline stages(ctx, model);
    using ids = typename llama<S>::ids;
    struct token_pair {
      ids tokens, targets;
    };
    for (const int n : of) {
      store.begin_step(n);
      stages.train(
          n, 1,
          [&](int m) {
            if (ctx.is_first()) ++read;
            const auto x = generate<ids>(ctx, {2, 8}, [&](std::int64_t i) { return m == bad_token_at ? 99 : i % 32; });
            return token_pair{x, x};
          },
          [&](int) { store.end_micro_batch(); });
      store.finish_gradients();
    }
  });
}
}  // namespace

TEST_CASE("a schedule that is wrong for this step's micro-batches alone is refused before the step begins") {
  int read = 0;
  CHECK_THROWS_WITH_AS(steps<last_of_four>({.pp = 2}, {3, 4}, read),
                       "the schedule last_of_four leaves out backward of micro-batch 3 on stage 1 of 2, in a step of 4 "
                       "micro-batches: its order has to emit each of them forward once and backward once, in order",
                       failure);
  CHECK(read == 3);  // of the step before
  CHECK_THROWS_WITH_AS(steps<twice_of_five>({.pp = 2}, {5}, read),
                       doctest::Contains("the schedule twice_of_five emits forward of micro-batch 2 out of turn on "
                                         "stage 0 of 2, in a step of 5"),
                       failure);
  CHECK_THROWS_WITH_AS(steps<beyond_five>({.pp = 2}, {5}, read),
                       doctest::Contains("the schedule beyond_five emits forward of micro-batch 5 out of turn on "
                                         "stage 0 of 2, in a step of 5"),
                       failure);
  CHECK_THROWS_WITH_AS(
      steps<stuck_from_three>({.pp = 2}, {3}, read),
      doctest::Contains("the schedule stuck_from_three waits for ever before backward of micro-batch 0 "
                        "on stage 0 of 2, in a step of 3"),
      failure);
  CHECK(read == 3);
}
TEST_CASE("a schedule is followed on one stage too") {
  int read = 0;
  CHECK_THROWS_WITH_AS(steps<last_of_four>({.dp = 2}, {4}, read),
                       doctest::Contains("leaves out backward of micro-batch 3 on stage 0 of 1"), failure);
  CHECK(read == 0);
}
TEST_CASE("a schedule that emits something else when it is carried out ends the step with an error") {
  calls = 0;
  int read = 0;
  CHECK_THROWS_WITH_AS(
      steps<another_each_time>({.pp = 1}, {2}, read),
      doctest::Contains("the schedule another_each_time leaves out backward of micro-batch 1 on stage 0 "
                        "of 1, in a step of 2"),
      failure);
  CHECK(read == 2);
}
TEST_CASE("a step has micro-batches") {
  int read = 0;
  CHECK_THROWS_WITH_AS(steps<one_f_one_b>({.pp = 2}, {0}, read), doctest::Contains("at least 1 micro-batch, not 0"),
                       failure);
}
TEST_CASE("what a failed step left in flight is not carried back by the next one") {
  using S = strategy<mesh<dp>, gpipe>;
  launch<S>({}, [](context& ctx) {
    llama<S> model(ctx, {.layers = 2, .hidden = 16, .heads = 2, .vocab = 32, .max_seq = 8});
    parameter_store<cpu_backend, fp32> store(ctx, model.registry(), config_of<replicated>());
    model.use(store);
    pipeline stages(ctx, model);
    using ids = llama<S>::ids;
    struct token_pair {
      ids tokens, targets;
    };
    const auto norm_of_step = [&](int multiple, int bad_micro_batch) {
      store.begin_step(2);
      stages.train(
          2, 1,
          [&](int m) {
            const auto token = [&](std::int64_t i) { return m == bad_micro_batch ? 99 : (i + m) * multiple % 32; };
            const auto x = generate<ids>(ctx, {2, 8}, token);
            return token_pair{x, x};
          },
          [&](int) { store.end_micro_batch(); });
      store.finish_gradients();
      return store.gradient_norm();
    };
    const double expected = norm_of_step(3, -1);
    CHECK_THROWS_WITH_AS(norm_of_step(5, 1), doctest::Contains("99"), failure);
    CHECK(norm_of_step(3, -1) == expected);
  });
}
