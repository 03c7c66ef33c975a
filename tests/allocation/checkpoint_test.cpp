// A checkpoint for which some rank has no memory, at whatever allocation: it is told once, in one sentence, the run
// goes on, and has the other checkpoints.
#include <doctest/doctest.h>

#include <weft/train/keep_checkpoints.hpp>
#include <weft/weft.hpp>

#include "../said_on_stderr.hpp"
#include "../train/small_batches.hpp"
#include "allocation/heap.hpp"

using namespace weft;
using weft_test::heap_failure;

namespace {

using S = strategy<mesh<dp>, zero3>;
// A matrix's share is some KB, the lists beside it less.
constexpr gpt2_config small{.layers = 1, .hidden = 64, .heads = 2, .vocab = 31, .max_seq = 8, .dropout = 0};

struct callback : training_callback {
  std::function<void(std::int64_t)> does;
  explicit callback(std::function<void(std::int64_t)> what) : does(std::move(what)) {}
  std::string after_step(const step_report& r) override { return does(r.step), std::string(); }
};

struct outcome {
  bool failed = false;  // an allocation did
  std::string said;
  std::set<std::string> left;  // in the folder
};

// Four steps, each with a checkpoint: behind the third step that of the second is finished, and its own begun. There
// allocation `number` of this rank that takes so many bytes fails.
outcome run(int ranks, int rank, long number, std::size_t least) {
  const weft_test::temporary_folder here;
  outcome out;
  out.said = weft_test::said_on_stderr([&] {
    launch<S>({.dp = ranks}, [&](context& ctx) {
      gpt2<S> model(ctx, small);
      trainer t(ctx, model);
      keep_checkpoints saves(ctx, t, {.folder = here.path(), .every = 1, .keep = 9});
      const bool mine = ctx.rank().here() == rank;
      callback before([&](std::int64_t step) {
        if (step == 3 && mine) heap_failure::least = least, heap_failure::left = number;
      });
      callback after([&](std::int64_t step) {
        if (step == 3 && mine) out.failed = std::exchange(heap_failure::left, 0) == 0;
      });
      t.run(
          weft_test::small_batches{&ctx},
          {.steps = 4, .batch = 6, .validation_sequences = 0, .print = false, .callbacks = {&before, &saves, &after}});
      load_checkpoint(ctx, t, newest_checkpoint(here.path()));
      if (mine) out.failed = out.failed && t.state().batches == 4;
    });
  });
  for (const auto& entry : std::filesystem::directory_iterator(here.path())) out.left.insert(entry.path().filename());
  return out;
}

// Each `stride`th allocation up to `most` fails, as far as there are some. How many there are.
long each(int ranks, int rank, std::size_t least, long stride, long most, std::set<std::string>& lost) {
  long number = 1;
  for (; number <= most; number += stride) {
    CAPTURE(ranks);
    CAPTURE(rank);
    CAPTURE(number);
    const outcome found = run(ranks, rank, number, least);
    if (!found.failed) break;
    CHECK(found.said == "weft: after step 3 no checkpoint: out of memory\n");
    CHECK(found.left.size() == 3);
    for (const char* step : {"step-00000001", "step-00000002", "step-00000003", "step-00000004"})
      if (!found.left.contains(step)) lost.insert(step);
  }
  return number - 1;
}

}  // namespace

TEST_CASE("a rank that has no memory for a checkpoint: all are told, in one sentence, and the run goes on") {
  for (const auto& [ranks, rank] : {std::pair{1, 0}, {2, 0}, {2, 1}, {3, 1}}) {
    std::set<std::string> lost, expected{"step-00000003"}, named;
    if (rank == 0) expected.insert("step-00000002");  // whose manifest it writes
    // Lists of tensors, and numbers on their way to the file.
    CHECK(each(ranks, rank, 4096, 4, 1000, lost) >= 5);
    CHECK(lost == expected);
    if (rank > 0) continue;
    each(ranks, rank, 1, 3, 12, named);  // the first of those by which the one before gets its name
    CHECK(named.contains("step-00000002"));
  }
}
