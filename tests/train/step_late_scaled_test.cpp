// Runs that give a step before they know of the one before, as in step_late_test.cpp, under a loss scale, by stages and
// from checkpoints.
#include <weft/train/early_stop.hpp>
#include <weft/train/keep_checkpoints.hpp>

#include "now_and_late.hpp"

namespace {
using namespace weft_test;

const gpt2_config with_masks{.layers = 2, .hidden = 32, .heads = 4, .vocab = 256, .max_seq = 16, .dropout = 0.1};
struct fp16_from_above : fp16_mixed {  // overflows at first
  static constexpr double initial_loss_scale = 0x1p17;
};

TEST_CASE("a step ahead: overflows of the first steps under a loss scale; stages and dropout") {
  const seen s = same<llama, mesh<dp>, zero1, fp16_from_above>({}, tiny, {.plan = steps(9)});
  CHECK(s.text.find("\"skipped\":true") != std::string::npos);
  CHECK(ahead(s) >= 2);
  const seen staged =
      same<gpt2, mesh<dp, pp>, zero2, fp16_from_above, zb_h1>({.dp = 2, .pp = 2}, with_masks, {.plan = steps(9)});
  CHECK(staged.text.find("\"skipped\":true") != std::string::npos);
}

// A run with checkpoints, and another from one that was taken in its midst.
template <class S>
std::string with_checkpoints() {
  const weft_test::temporary_folder folder;
  std::string out;
  for (const bool again : {false, true})
    launch<S>({},
              [&](context& ctx) {
                llama<S> model(ctx, tiny);
                trainer t(ctx, model, adamw{.lr = 1e-2});
                if (again) load_checkpoint(ctx, t, folder / "all/step-00000004");
                early_stop stop({.validations = 9});
                keep_checkpoints saves(ctx, t, {.folder = folder / (again ? "rest" : "all"), .every = 4, .keep = 9});
                training plan = steps(10);
                plan.begin = again ? 4 : 0, plan.batch = 8, plan.micro_batches = 2, plan.print = false,
                plan.callbacks = {&saves, &stop};
                const training_result r = t.run(text_dataset(ctx, rhyme()), plan);
                std::string mine = detail::text(std::bit_cast<std::int64_t>(r.loss), ' ', t.state().batches, ' ',
                                                t.state().loss_scale, ' ', t.state().skipped_steps, '\n');
                t.store().each_parameter([&](const parameter_record&, auto, auto weight) {
                  for (const auto x : weight) mine.append(reinterpret_cast<const char*>(&x), sizeof x);
                });
                if constexpr (S::backend::queue::runs_behind)
                  CHECK(std::count_if(ctx.queue<late_backend>().left().begin(), ctx.queue<late_backend>().left().end(),
                                      [](std::size_t n) { return n > 150; }) >= 1);
                if (ctx.is_first()) out += mine;
              },
              {.check = false});
  for (const char* name : {"all/step-00000004", "all/step-00000008", "all/step-00000010", "rest/step-00000008"})
    CHECK(std::filesystem::exists(folder / name));
  CHECK(out.substr(0, out.size() / 2) == out.substr(out.size() / 2));
  return out;
}

TEST_CASE("a step ahead: checkpoints are of their steps, and a run goes on from one") {
  using now = strategy<mesh<dp>, zero1, fp16_from_above>;
  using late = strategy<mesh<dp>, zero1, fp16_from_above, late_backend>;
  CHECK(with_checkpoints<now>() == with_checkpoints<late>());
}

}  // namespace
