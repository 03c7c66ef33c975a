// What machines do to a run, by plan: ranks that are late change nothing, one that stops ends all with its words, and a
// flipped bit is found where ranks are compared.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/comm/faulty.hpp>
#include <weft/comm/threads.hpp>
#include <weft/nn/llama.hpp>
#include <weft/parallel/launch.hpp>
#include <weft/train/trainer.hpp>

using namespace weft;

namespace {

// What the test that runs plans; launch's ranks read it.
planned_faults plan;
int rank_of_plan = -1;  // -1: every rank
struct planned {
  static planned_faults of(int rank) { return rank_of_plan < 0 || rank == rank_of_plan ? plan : planned_faults{}; }
};

template <class C, class Sharding>
std::vector<double> losses(bool check = false) {
  using S = strategy<mesh<dp, pp, tp>, Sharding, C>;
  std::vector<double> out;
  launch<S>(
      {.dp = 2, .tp = 2, .pp = 2},
      [&](context& ctx) {
        llama<S> model(ctx, {.layers = 2, .hidden = 16, .heads = 2, .ffn = 32, .vocab = 256, .max_seq = 8});
        trainer t(ctx, model, adamw{.lr = 1e-2});
        const text_dataset data(ctx, std::make_shared<const text_corpus>("words", std::string(500, 'a') + "b"), 0);
        for (int step = 0; step < 3; ++step) {
          const auto r =
              t.run(data, {.steps = 1, .batch = 8, .micro_batches = 2, .validation_sequences = 0, .print = false});
          if (ctx.is_first()) out.push_back(r.loss);
        }
      },
      {.check = check});
  return out;
}
using C = faulty<threads, planned>;

}  // namespace

TEST_CASE("ranks that are late, each by its own numbers, change no bit") {
  const std::vector<double> on_time = losses<threads, zero3>();
  for (const std::uint64_t seed : {1, 2, 3}) {
    plan = {.seed = seed, .late_us = 300}, rank_of_plan = -1;
    CHECK(losses<C, zero3>() == on_time);
  }
}

TEST_CASE("a rank that stops ends all ranks, and says where") {
  for (const std::int64_t at : {0, 5, 17, 40, 71})
    for (const int rank : {0, 3, 7}) {
      plan = {.stops_at = at}, rank_of_plan = rank;
      const std::string words =
          "rank " + std::to_string(rank) + " stops in place of its operation " + std::to_string(at);
      CHECK_THROWS_WITH_AS((losses<C, zero3>()), doctest::Contains(words.c_str()), failure);
    }
}

TEST_CASE("a flipped bit changes a run, and is found where ranks are compared") {
  int found = 0, changed = 0, runs = 0;
  const std::vector<double> sound = losses<threads, zero1>();
  for (std::int64_t at = 10; at < 90; at += 10) {
    plan = {.seed = std::uint64_t(at), .flips_at = at}, rank_of_plan = 5;
    ++runs;
    try {
      changed += losses<C, zero1>(true) != sound;
    } catch (const failure&) {
      ++found;
    }
  }
  CHECK(found > 0);
  CHECK(found + changed > runs / 2);
}

TEST_CASE("a decorator that plans nothing changes nothing") {
  plan = {};
  CHECK(losses<C, zero1>() == losses<threads, zero1>());
}
