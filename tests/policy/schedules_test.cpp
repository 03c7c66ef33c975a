// The schedules that are shipped beside the default, and one of a user's own with several chunks: sound, as their
// papers' figures, and idle and full as their formulas say.
#include <string>

#include <doctest/doctest.h>

#include <weft/policy/strategy.hpp>
#include <weft/testing/schedule.hpp>

#include "breadth_first.hpp"

namespace {
using namespace weft;
using enum pipeline_action::kind;
using weft_test::breadth_first;

static_assert(schedule_policy<gpipe> && schedule_policy<interleaved<2>> && schedule_policy<zb_h1> &&
              schedule_policy<zbv> && schedule_policy<dual_pipe_v> && schedule_policy<breadth_first>);
static_assert(chunks_of<one_f_one_b> == 1 && chunks_of<interleaved<3>> == 3 && chunks_of<zbv> == 2);
static_assert(sound_schedule<dual_pipe_v, 4, 8> && sound_schedule<dual_pipe_v, 4, 3>);
static_assert(sound_schedule<gpipe, 4, 6> && sound_schedule<zb_h1, 4, 6> && sound_schedule<zbv, 4, 6>);
static_assert(sound_schedule<interleaved<2>, 4, 8> && !sound_schedule<interleaved<2>, 4, 6>);
static_assert(sound_schedule<breadth_first, 4, 6>);

// What a rank holds, while compiling.
static_assert(load_of<one_f_one_b>(0, 4, 8).in_flight == 4 && load_of<one_f_one_b>(3, 4, 8).in_flight == 1);
static_assert(load_of<gpipe>(3, 4, 8).activations == 8);
static_assert(load_of<zbv>(0, 4, 8).in_flight == 8 && load_of<zbv>(0, 4, 8).activations == 4);
static_assert(load_of<zb_h1>(3, 4, 8).activations == 4 && load_of<zb_h1>(3, 4, 8, 0.5).activations == 2.5);

struct waits_for_a_chunk {  // the second chunk of rank 0 wants a micro-batch that rank 1 sends on after it is back
  static constexpr std::string_view name = "waits_for_a_chunk";
  static constexpr int chunks = 2;
  template <class Emit>
  static constexpr void order(int rank, int, int micro_batches, Emit&& emit) {
    for (int c = 0; c < 2; ++c)
      for (int m = 0; m < micro_batches; ++m) {
        if (rank == 0) emit(pipeline_action{forward, m, c});
        if (rank == 1 && c == 1)
          emit(pipeline_action{forward, m, 0}), emit(pipeline_action{forward, m, 1}),
              emit(pipeline_action{backward, m, 1}), emit(pipeline_action{backward, m, 0});
      }
    if (rank == 0)
      for (int c = 1; c >= 0; --c)
        for (int m = 0; m < micro_batches; ++m) emit(pipeline_action{backward, m, c});
  }
};
static_assert(!sound_schedule<waits_for_a_chunk, 2, 2>);

// One forward, one backward, which go together.
struct in_pairs {
  static constexpr std::string_view name = "in_pairs";
  template <class Emit>
  static constexpr void order(int rank, int ranks, int micro_batches, Emit&& emit) {
    const int ahead = ranks - rank;
    for (int m = 0; m < micro_batches + ahead; ++m) {
      if (m < micro_batches) emit(pipeline_action{forward, m, 0, m >= ahead});
      if (m >= ahead) emit(pipeline_action{backward, m - ahead});
    }
  }
};
static_assert(sound_schedule<in_pairs, 1, 3> && sound_schedule<in_pairs, 4, 8> && sound_schedule<in_pairs, 4, 2>);

// The same with one action marked that may not be.
template <pipeline_action::kind What, int MicroBatch>
struct paired_wrongly {
  static constexpr std::string_view name = "paired_wrongly";
  template <class Emit>
  static constexpr void order(int rank, int ranks, int micro_batches, Emit&& emit) {
    in_pairs::order(rank, ranks, micro_batches, [&](pipeline_action a) {
      if (a.what == What && a.micro_batch == MicroBatch) a.with_next = true;
      emit(a);
    });
  }
};
static_assert(!sound_schedule<paired_wrongly<pipeline_action::kind::forward, 0>, 2, 4> &&
              !sound_schedule<paired_wrongly<pipeline_action::kind::backward, 3>, 2, 4>);

struct waits_in_a_pair {  // each forward with the backward that its output brings about
  static constexpr std::string_view name = "waits_in_a_pair";
  template <class Emit>
  static constexpr void order(int rank, int, int micro_batches, Emit&& emit) {
    if (rank == 0) emit(pipeline_action{forward, 0});
    for (int m = 0; m < micro_batches; ++m) {
      if (rank == 1) emit(pipeline_action{forward, m});
      if (rank == 0 && m > 0) emit(pipeline_action{forward, m, 0, true});
      if (rank == 0 && m > 0) emit(pipeline_action{backward, m - 1});
      if (rank == 1 && m > 0) emit(pipeline_action{backward, m - 1});
    }
    emit(pipeline_action{backward, micro_batches - 1});
  }
};
// The same ranks go on where the two are not one.
struct waits_in_no_pair {
  static constexpr std::string_view name = "waits_in_no_pair";
  template <class Emit>
  static constexpr void order(int rank, int ranks, int micro_batches, Emit&& emit) {
    waits_in_a_pair::order(rank, ranks, micro_batches, [&](pipeline_action a) {
      a.with_next = false;
      emit(a);
    });
  }
};
static_assert(!sound_schedule<waits_in_a_pair, 2, 4> && sound_schedule<waits_in_no_pair, 2, 4>);

template <class P>
std::string text(int rank, int ranks, int micro_batches) {
  std::string out;
  P::order(rank, ranks, micro_batches, [&](pipeline_action a) {
    constexpr const char* letters[] = {"F", "B", "I", "W"};
    out += (out.empty() ? "" : " ") + std::string(letters[int(a.what)]) + std::to_string(a.micro_batch) +
           std::string(std::size_t(a.chunk), '\'') + (a.with_next ? "+" : "");
  });
  return out;
}

template <class P>
double idle(int ranks, int micro_batches, const testing::schedule_costs& costs = {}) {
  return testing::idle_of(testing::schedule_timeline<P>(ranks, micro_batches, costs));
}
}  // namespace

TEST_CASE("shipped schedules are sound for all sizes that they take") {
  testing::check_schedule<gpipe>(9, 40);
  testing::check_schedule<interleaved<1>>();
  testing::check_schedule<interleaved<2>>(9, 40);
  testing::check_schedule<interleaved<4>>(9, 40);
  testing::check_schedule<zb_h1>(9, 40);
  testing::check_schedule<zbv>(9, 40);
  testing::check_schedule<dual_pipe_v>(9, 40);
  testing::check_schedule<breadth_first>(6, 16);  // more micro-batches would be more than 16 messages under way
}

TEST_CASE("schedules as in their papers' figures") {
  CHECK(text<interleaved<2>>(1, 2, 2) == "F0 F1 F0' B0' F1' B1' B0 B1");
  CHECK(text<interleaved<2>>(0, 2, 4) == "F0 F1 F0' F1' F2 B0' F3 B1' F2' B0 F3' B1 B2' B3' B2 B3");
  CHECK(text<zb_h1>(0, 2, 3) == "F0 F1 B0 F2 B1 B2");
  CHECK(text<zb_h1>(1, 2, 3) == "F0 I0 F1 I1 W0 F2 I2 W1 W2");
  CHECK(text<zbv>(0, 1, 2) == "F0 F0' I0' W0' F1 I0 W0 F1' I1' W1' I1 W1");
  CHECK(text<zbv>(1, 2, 3) == "F0 F0' F1 F1' I0' W0' F2 I0 W0 F2' I1' W1' I1 I2' I2 W1 W2' W2");
  CHECK(text<dual_pipe_v>(0, 2, 5) ==
        "F0 F1 F2 F0' I0' W0' F1' F3+ B1' F2'+ B0 F4+ B2' F3'+ B1 B3' F4'+ B2 B4' I3 W3 I4 W4");
  CHECK(text<dual_pipe_v>(1, 2, 5) ==
        "F0 F0' F1 F1' F2 B0' F2'+ B0 F3+ B1' F3'+ B1 F4+ B2' F4'+ B2 B3' B3 I4' I4 W4' W4");
}

TEST_CASE("idle time is what the formulas say") {
  const testing::schedule_costs costs{1, 1.25, 0.75};
  const double all = costs.forward + costs.inputs + costs.weights;
  for (const int p : {2, 3, 4, 8})
    for (const int m : {2 * p, 4 * p}) {
      CAPTURE(p);
      CAPTURE(m);
      CHECK(idle<one_f_one_b>(p, m, costs) == doctest::Approx((p - 1) * all));
      CHECK(idle<gpipe>(p, m, costs) == doctest::Approx((p - 1) * all));
      CHECK(idle<interleaved<2>>(p, m, costs) == doctest::Approx((p - 1) * all / 2));
      CHECK(idle<interleaved<3>>(p, m, costs) == doctest::Approx((p - 1) * all / 3));
      CHECK(idle<zb_h1>(p, m, costs) == doctest::Approx((p - 1) * (1 + 1.25 - 0.75)));
      CHECK(idle<zbv>(p, m) == doctest::Approx(0));
      CHECK(idle<dual_pipe_v>(p, m) == doctest::Approx((p - 1) / 2.));
    }
}

TEST_CASE("a rank holds what the formulas say") {
  for (const int p : {2, 4, 8})
    for (int r = 0; r < p; ++r) {
      const int m = 4 * p;
      CHECK(load_of<one_f_one_b>(r, p, m).activations == p - r);
      CHECK(load_of<gpipe>(r, p, m).activations == m);
      CHECK(load_of<interleaved<2>>(r, p, m).activations <= doctest::Approx(p * (1 + (p - 1) / (2. * p))));
      CHECK(load_of<interleaved<2>>(0, p, m).activations == doctest::Approx((3 * p - 1) / 2.));
      CHECK(load_of<zb_h1>(r, p, m).activations == p);
      CHECK(load_of<zbv>(r, p, m).activations == p);
      CHECK(load_of<zbv>(r, p, m).in_flight == 2 * p);
      CHECK(load_of<dual_pipe_v>(r, p, m).activations == p + 0.5);
    }
}

TEST_CASE("virtual stages that wait for each other are named, with the chunk") {
  CHECK_THROWS_WITH_AS(detail::check_schedule<waits_for_a_chunk>(2, 2),
                       doctest::Contains("the schedule waits_for_a_chunk waits for ever before"), failure);
}

TEST_CASE("what goes together waits for both, and takes less where one hides the other") {
  CHECK(idle<in_pairs>(1, 4) == 0);
  const auto length = [](const testing::schedule_costs& costs) {
    return testing::schedule_timeline<in_pairs>(2, 8, costs)[1].back().end;
  };
  CHECK(length({1, 1, 1, 0.5}) == doctest::Approx(length({}) - 7 * 0.5));  // seven pairs
  const auto timeline = testing::schedule_timeline<in_pairs>(2, 4, {});
  CHECK(timeline[0][2].action == pipeline_action{forward, 2, 0, true});
  CHECK(timeline[0][2].end == timeline[0][3].begin);  // which waited for its gradient with it
  CHECK(timeline[0][2].begin > timeline[0][1].end);
}

TEST_CASE("a forward that goes with nothing is named") {
  const char* const why =
      " with_next on stage 0 of 2, in a step of 4 micro-batches: a forward goes with the backward or backward_inputs "
      "that is emitted next, of another micro-batch or chunk";
  const auto message = [](auto schedule) {
    try {
      detail::check_schedule<decltype(schedule)>(2, 4);
    } catch (const failure& e) {
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  CHECK(message(paired_wrongly<pipeline_action::kind::forward, 0>()) ==
        "the schedule paired_wrongly emits forward of micro-batch 0" + std::string(why));
  CHECK(message(paired_wrongly<pipeline_action::kind::backward, 1>()) ==
        "the schedule paired_wrongly emits forward of micro-batch 3" + std::string(why));
  CHECK(message(paired_wrongly<pipeline_action::kind::backward, 3>()) ==
        "the schedule paired_wrongly emits backward of micro-batch 3" + std::string(why));
  CHECK(message(waits_in_a_pair()).find("waits for ever before") != std::string::npos);
}

TEST_CASE("a schedule may have as many messages under way as a communicator takes, and no more") {
  CHECK(detail::check_schedule<one_f_one_b>(4, 40) == 2);
  CHECK(detail::check_schedule<zbv>(4, 40) == 2);
  CHECK(detail::check_schedule<breadth_first>(2, 16) == 8);  // gradients of a chunk whose turn is late
  CHECK_THROWS_WITH_AS(detail::check_schedule<breadth_first>(2, 40),
                       "the schedule breadth_first has more than 16 micro-batches under way between two virtual stages "
                       "before chunk 0 of rank 0 takes micro-batch 32, in a step of 40 on 2 ranks, and a communicator "
                       "takes no more: let it receive them earlier, or take fewer micro-batches",
                       failure);
}
