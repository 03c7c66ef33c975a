// Runs that end and go on under another strategy. The strategies stand in resumed_NAME_test.cpp, three in each, behind
// plain functions, so that each unit goes on under its own from what any of the others saved. Invariant: a way is the
// same for every unit; what it saves depends on nothing but the way.
#pragma once

#include <doctest/doctest.h>

#include <weft/train/checkpoint.hpp>
#include <weft/weft.hpp>

#include "../sample.hpp"
#include "../temporary.hpp"
#include "small_batches.hpp"

namespace weft_test {

/// The losses of steps begin + 1 ... end of a run, gone on with from `load` where it isn't empty; its state goes to
/// `save` after the last, where that isn't.
using resumed_run = std::vector<double> (*)(const weft::degrees& ranks, const std::string& load, int begin, int end,
                                            const std::string& save);

struct way {
  const char* name;
  weft::degrees ranks;
  resumed_run run;
};

inline constexpr int saved_at = 3, run_to = 13;

template <class S>
std::vector<double> resumed_losses(const weft::degrees& ranks, const std::string& load, int begin, int end,
                                   const std::string& save) {
  std::vector<double> out;
  weft::launch<S>(ranks, [&](weft::context& ctx) {
    weft::llama<S> model(ctx,
                         {.layers = 4, .hidden = 16, .heads = 4, .kv_heads = 2, .ffn = 24, .vocab = 31, .max_seq = 8});
    weft::trainer t(ctx, model);
    if (!load.empty()) weft::load_checkpoint(ctx, t, load);
    for (int step = begin; step < end; ++step) {
      const weft::training_result r = t.run(small_batches{&ctx}, {.steps = step + 1,
                                                                  .begin = step,
                                                                  .batch = 24,
                                                                  .micro_batches = 2,
                                                                  .schedule = {.warmup = 2},
                                                                  .validation_sequences = 0,
                                                                  .print = false});
      if (ctx.is_first()) out.push_back(r.loss);
    }
    if (!save.empty()) weft::save_checkpoint(ctx, t, save);
  });
  return out;
}

// Each in resumed_NAME_test.cpp.
std::vector<way> replicated_ways();
std::vector<way> sharded_ways();
std::vector<way> split_ways();
std::vector<way> hybrid_ways();
std::vector<way> pipelined_ways();
std::vector<way> zero_bubble_ways();

/// Each of `own` goes on from what it saved itself, with the same bits, and from what others saved: of all twelve the
/// one before it, or all where all is asked for.
inline void check_resumed(const std::vector<way>& own) {
  std::vector<way> all;
  for (const auto ways : {replicated_ways, sharded_ways, split_ways, hybrid_ways, pipelined_ways, zero_bubble_ways})
    for (const way& w : ways()) all.push_back(w);
  REQUIRE(all.size() == 12);
  const temporary_folder here;
  const auto saved = [&](const way& w) {
    const std::string folder = here / w.name;
    if (!std::filesystem::exists(folder)) w.run(w.ranks, "", 0, saved_at, folder);
    return folder;
  };
  const std::vector<double> reference = all[0].run(all[0].ranks, "", 0, run_to, "");
  for (const way& to : own) {
    std::size_t at = 0;
    while (std::string_view(all[at].name) != to.name) ++at;
    const std::vector<double> unbroken = to.run(to.ranks, "", 0, run_to, "");
    for (std::size_t from = 0; from < all.size(); ++from) {
      if (!everything() && from != at && (from + 1) % all.size() != at) continue;
      const std::string before = all[from].name, behind = to.name;
      CAPTURE(before);
      CAPTURE(behind);
      const std::vector<double> rest = to.run(to.ranks, saved(all[from]), saved_at, run_to, "");
      REQUIRE(rest.size() == run_to - saved_at);
      for (std::size_t i = 0; i < rest.size(); ++i)
        if (from == at)
          CHECK(rest[i] == unbroken[i + saved_at]);
        else  // sums in another order, some hundred roundings of 1e-16 each
          CHECK(std::abs(rest[i] - reference[i + saved_at]) <= 1e-12 * reference[i + saved_at]);
    }
  }
}

}  // namespace weft_test
