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

struct all_forwards : gpipe_but<all_forwards> {
  static constexpr std::string_view name = "all_forwards";
  static constexpr bool out(int, int, int, int) { return false; }
};

struct two_on_one : interleaved<2> {  // right for one rank, two and four
  static constexpr std::string_view name = "two_on_one";
  static constexpr int stage_of(int rank, int ranks, int chunk) { return ranks == 3 ? chunk : rank + chunk * ranks; }
};
struct forgets_a_chunk : interleaved<2> {
  static constexpr std::string_view name = "forgets_a_chunk";
  template <class Emit>
  static constexpr void order(int rank, int ranks, int micro_batches, Emit&& emit) {
    interleaved<2>::order(rank, ranks, micro_batches, [&](pipeline_action a) {
      if (micro_batches != 6 || a != pipeline_action{backward, 4, 1}) emit(a);
    });
  }
};
struct third_chunk : interleaved<2> {
  static constexpr std::string_view name = "third_chunk";
  template <class Emit>
  static constexpr void order(int rank, int ranks, int micro_batches, Emit&& emit) {
    interleaved<2>::order(rank, ranks, micro_batches, [&](pipeline_action a) {
      if (micro_batches == 6) ++a.chunk;
      emit(a);
    });
  }
};
struct ends_inside {  // virtual stages from the middle: the first on rank 1, the last on rank 0
  static constexpr std::string_view name = "ends_inside";
  static constexpr int stage_of(int rank, int ranks, int) { return (rank + ranks - 1) % ranks; }
  template <class Emit>
  static constexpr void order(int rank, int ranks, int micro_batches, Emit&& emit) {
    one_f_one_b::order(stage_of(rank, ranks, 0), ranks, micro_batches, emit);
  }
};

thread_local int calls = 0;
struct another_each_time : gpipe_but<another_each_time> {  // whole whenever it is tried, and not when it is carried out
  static constexpr std::string_view name = "another_each_time";
  static constexpr bool out(int, int, int, int m) { return m == 1 && !std::is_constant_evaluated() && ++calls > 1; }
};

// Steps with these numbers of micro-batches, of sequences of eight tokens.
template <class Schedule>
void steps(const degrees& ranks, std::initializer_list<int> of, int& read, int bad_token_at = -1, bool tied = false) {
  using S = strategy<mesh<dp, pp>, Schedule>;
  launch<S>(ranks, [&](context& ctx) {
    llama<S> model(ctx, {.layers = 2 * chunks_of<Schedule> + (ranks.pp > 2 ? 2 : 0),
                         .hidden = 16,
                         .heads = 2,
                         .vocab = 32,
                         .max_seq = 8,
                         .tied_embeddings = tied});
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
TEST_CASE("what is wrong with virtual stages is said with the chunk") {
  int read = 0;
  CHECK_THROWS_WITH_AS(
      steps<interleaved<2>>({.pp = 2}, {2, 3}, read),
      "the schedule interleaved asks for as many micro-batches as pp has ranks, or a multiple of that, "
      "and this step has 3 on 2 ranks; choose another number of micro-batches, or another schedule",
      failure);
  CHECK(read == 4);  // of the step before, each once a chunk
  CHECK_THROWS_WITH_AS(
      steps<forgets_a_chunk>({.pp = 2}, {6}, read),
      "the schedule forgets_a_chunk emits backward of micro-batch 5 in chunk 1 of 2 out of turn on stage "
      "0 of 2, in a step of 6 micro-batches: its order has to emit each of them forward once and "
      "backward once in every chunk, in order",
      failure);
  CHECK_THROWS_WITH_AS(
      steps<third_chunk>({.pp = 2}, {6}, read),
      doctest::Contains(
          "the schedule third_chunk emits forward of micro-batch 0 in chunk 2 of 2 out of turn on stage 0"),
      failure);
  CHECK_THROWS_WITH_AS(
      steps<two_on_one>({.pp = 3}, {3}, read),
      "the schedule two_on_one says that chunk 0 of rank 1 is virtual stage 0 of 6: its stage_of has to "
      "give each of 0 to 5 to one chunk of one rank",
      failure);
  CHECK(read == 4);
}
TEST_CASE("layers for every virtual stage, and tied embeddings where they can be summed") {
  int read = 0;
  CHECK_THROWS_WITH_AS(
      steps<interleaved<2>>({.pp = 4}, {4}, read),
      "6 layers don't fill 8 pipeline stages, 2 on each of 4 ranks; choose pp of at most 3, or another "
      "schedule",
      failure);
  CHECK_THROWS_WITH_AS(steps<ends_inside>({.pp = 3}, {3}, read, -1, true),
                       doctest::Contains("the schedule ends_inside has its first virtual stage on rank 1 of pp and its "
                                         "last on rank 0, so embeddings can't be tied"),
                       failure);
  steps<ends_inside>({.pp = 3}, {3}, read);
  steps<ends_inside>({.pp = 2}, {3}, read, -1, true);  // on the two ends, the other way round
  CHECK(read == 6);
}
TEST_CASE("a step has micro-batches") {
  int read = 0;
  CHECK_THROWS_WITH_AS(steps<one_f_one_b>({.pp = 2}, {0}, read), doctest::Contains("at least 1 micro-batch, not 0"),
                       failure);
}
TEST_CASE("what a failed step left in flight is not backpropagated by the next one") {
  using S = strategy<mesh<dp>, all_forwards>;
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
