// Schedules: each is a permutation of the step's work that the stages can follow together; what is not one is found
// out.
#include <string>

#include <doctest/doctest.h>

#include <weft/policy/strategy.hpp>
#include <weft/testing/schedule.hpp>

#include "weights_last.hpp"

namespace {
using namespace weft;
using enum pipeline_action::kind;
using weft_test::weights_last;

struct forgets_one : weights_last {
  template <class Emit>
  static constexpr void order(int, int, int micro_batches, Emit&& emit) {
    for (int m = 0; m < micro_batches; ++m) emit(pipeline_action{forward, m});
    for (int m = 1; m < micro_batches; ++m) emit(pipeline_action{backward, m});
  }
};
struct twice : weights_last {
  template <class Emit>
  static constexpr void order(int, int, int micro_batches, Emit&& emit) {
    for (int m = 0; m < micro_batches; ++m)
      emit(pipeline_action{forward, m}), emit(pipeline_action{backward, m}), emit(pipeline_action{backward_weights, m});
  }
};
struct backwards_first : weights_last {
  template <class Emit>
  static constexpr void order(int, int, int micro_batches, Emit&& emit) {
    for (int m = 0; m < micro_batches; ++m) emit(pipeline_action{backward, m}), emit(pipeline_action{forward, m});
  }
};
struct waits_for_ever
    : weights_last {  // the first stage wants micro-batch 0 back before it forwards 1, the last wants both first
  template <class Emit>
  static constexpr void order(int stage, int stages, int micro_batches, Emit&& emit) {
    if (stage == stages - 1) return weights_last::order(stage, stages, micro_batches, emit);
    for (int m = 0; m < micro_batches; ++m) emit(pipeline_action{forward, m}), emit(pipeline_action{backward, m});
  }
};

struct forgets_the_seventh : weights_last {  // of seven, on the last of three stages
  template <class Emit>
  static constexpr void order(int stage, int stages, int micro_batches, Emit&& emit) {
    one_f_one_b::order(stage, stages, micro_batches, [&](pipeline_action a) {
      if (stage != 2 || stages != 3 || micro_batches != 7 || a != pipeline_action{backward, 6}) emit(a);
    });
  }
};

struct backward_first_on_2 : weights_last {
  static constexpr std::string_view name = "backward_first_on_2";
  template <class Emit>
  static constexpr void order(int stage, int stages, int micro_batches, Emit&& emit) {
    if (stages != 5 || stage != 2) return one_f_one_b::order(stage, stages, micro_batches, emit);
    for (int m = 0; m < micro_batches; ++m) emit(pipeline_action{backward, m}), emit(pipeline_action{forward, m});
  }
};
struct weights_first : weights_last {
  static constexpr std::string_view name = "weights_first";
  template <class Emit>
  static constexpr void order(int, int, int micro_batches, Emit&& emit) {
    for (int m = 0; m < micro_batches; ++m)
      emit(pipeline_action{forward, m}), emit(pipeline_action{backward_weights, m}),
          emit(pipeline_action{backward_inputs, m});
  }
};

struct none_of_it : weights_last {  // a whole backward of "no" micro-batch, while one in two parts lacks its second
  template <class Emit>
  static constexpr void order(int, int, int, Emit&& emit) {
    emit(pipeline_action{forward, 0}), emit(pipeline_action{backward_inputs, 0}), emit(pipeline_action{backward, -1});
  }
};
static_assert(!sound_schedule<none_of_it, 1, 1>);

static_assert(schedule_policy<one_f_one_b> && schedule_policy<weights_last> && !schedule_policy<zero3>);
static_assert(sound_schedule<one_f_one_b, 1, 1> && sound_schedule<one_f_one_b, 1, 5> &&
              sound_schedule<one_f_one_b, 2, 1> && sound_schedule<one_f_one_b, 2, 2> &&
              sound_schedule<one_f_one_b, 4, 2> && sound_schedule<one_f_one_b, 4, 9> &&
              sound_schedule<one_f_one_b, 7, 3> && sound_schedule<one_f_one_b, 8, 8>);
static_assert(sound_schedule<weights_last, 4, 6>);
static_assert(!sound_schedule<forgets_one, 2, 3> && !sound_schedule<twice, 2, 2> &&
              !sound_schedule<backwards_first, 2, 2>);
static_assert(sound_schedule<waits_for_ever, 2, 1> && !sound_schedule<waits_for_ever, 2, 2>);

using named = strategy<mesh<dp, pp>, weights_last, zero1>;
static_assert(std::same_as<named::schedule, weights_last> && std::same_as<named::sharding, zero1>);
static_assert(std::same_as<strategy<mesh<dp>>::schedule, one_f_one_b>);

std::string text(int stage, int stages, int micro_batches) {
  std::string out;
  one_f_one_b::order(stage, stages, micro_batches, [&](pipeline_action a) {
    constexpr const char* letters[] = {"F", "B", "I", "W"};
    out += (out.empty() ? "" : " ") + std::string(letters[int(a.what)]) + std::to_string(a.micro_batch);
  });
  return out;
}

TEST_CASE("the installed law of a schedule passes sound ones, and tells where another is wrong") {
  CHECK_NOTHROW(testing::check_schedule<one_f_one_b>());
  CHECK_NOTHROW(testing::check_schedule<weights_last>());
  CHECK_THROWS_WITH_AS(testing::check_schedule<forgets_one>(),
                       doctest::Contains("leaves out backward of micro-batch 0 on stage 0 of 1, in a step of 1"),
                       failure);
  CHECK_THROWS_WITH_AS(testing::check_schedule<waits_for_ever>(),
                       doctest::Contains("waits for ever before backward of micro-batch 0 on stage 0 of 2"), failure);
  CHECK_THROWS_WITH_AS(testing::check_schedule<forgets_the_seventh>(),
                       doctest::Contains("micro-batch 6 on stage 2 of 3, in a step of 7"), failure);
}

TEST_CASE("of stages that wait for ever, the one is named whose order can't be followed by itself") {
  CHECK_THROWS_WITH_AS(
      testing::check_schedule<backward_first_on_2>(),
      doctest::Contains("emits backward of micro-batch 0 before its forward on stage 2 of 5, in a step of 1"), failure);
  CHECK_THROWS_WITH_AS(
      testing::check_schedule<weights_first>(),
      doctest::Contains("emits backward_weights of micro-batch 0 before its backward_inputs on stage 0"), failure);
}

TEST_CASE("a law that would try nothing is refused") {
  CHECK_THROWS_WITH_AS(testing::check_schedule<one_f_one_b>(0, 0),
                       doctest::Contains("check_schedule was given 0 stages and 0 micro-batches"), failure);
  CHECK_THROWS_AS(testing::check_schedule<one_f_one_b>(3, 0), failure);
}

}  // namespace

TEST_CASE("1F1B, as in the paper's figure") {
  CHECK(text(0, 1, 2) == "F0 B0 F1 B1");
  CHECK(text(0, 2, 3) == "F0 F1 B0 F2 B1 B2");
  CHECK(text(1, 2, 3) == "F0 B0 F1 B1 F2 B2");
  CHECK(text(0, 4, 2) == "F0 F1 B0 B1");
}

TEST_CASE("1F1B: a stage holds no more micro-batches than there are stages from it to the end") {
  for (int stages = 1; stages <= 8; ++stages)
    for (int stage = 0; stage < stages; ++stage)
      for (int micro_batches = 1; micro_batches <= 12; ++micro_batches) {
        int held = 0, most = 0;
        one_f_one_b::order(stage, stages, micro_batches, [&](pipeline_action a) {
          held += a.what == forward ? 1 : -1;
          most = std::max(most, held);
        });
        CHECK(held == 0);
        CHECK(most == std::min(micro_batches, stages - stage));
      }
}

TEST_CASE("an action of no kind is not due, and named as that") {
  const weft::pipeline_action odd{static_cast<weft::pipeline_action::kind>(77), 0};
  CHECK(!weft::stage_progress().take(odd));
  CHECK_THROWS_WITH_AS(weft::detail::fail_of_schedule("sly", {weft::schedule_fault::kind::not_due, 0, odd}, 2, 3),
                       doctest::Contains("sly emits an action of no pipeline_action::kind of micro-batch 0"),
                       weft::failure);
}
