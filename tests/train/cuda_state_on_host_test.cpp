// A run that gives each step before it knows of the one before, and the optimizer's state in the host's memory, on the
// CUDA kernels run on the host behind queues that run as late as they may, or copy as early (state_on_host.hpp).
#include <backend/cuda/lazy_queue.hpp>

#include <weft/io/file_memory.hpp>

#include "../optim/rounded_moments.hpp"
#include "beside_cpu.hpp"
#include "sample.hpp"
#include "state_on_host.hpp"

using namespace weft;
using namespace weft_test;

namespace {
// In fp16, whose first steps overflow: they are not taken. Uploads are staged, so nothing that a run gives waits for
// what it gave before.
using overflowing = strategy<mesh<dp>, zero1, fp16_from_above, lazy_cuda_backend>;
const llama_config two_heads{
    .layers = 1, .hidden = 16, .heads = 2, .kv_heads = 2, .ffn = 24, .vocab = 256, .max_seq = 8};
const trial_of_state<overflowing> on_two_ranks{{.dp = 2}, two_heads};
// It uploads so little that its initial weights are still to be drawn when its first update is given.
const auto on_one_rank = [] {
  auto trial = on_two_ranks;
  trial.mesh = {}, trial.plan.steps = 6, trial.plan.batch = 2, trial.plan.micro_batches = 1;
  return trial;
}();
}  // namespace

TEST_CASE("the kernels of CUDA: a run gives each step before it knows of the one before, on two ranks of one device" *
          doctest::skip(sanitized)) {
  struct at_once : training_callback {};
  at_once each;
  auto not_late = on_two_ranks;
  not_late.plan.callbacks = {&each};
  const adamw optimizer{.lr = 1e-2};
  const auto late = on_two_ranks.run(optimizer);
  CHECK(late[0].skipped > 0);
  CHECK(late[0].skipped < 7);
  CHECK(not_late.run(optimizer)[0].bits == late[0].bits);
}

TEST_CASE("the kernels of CUDA: the optimizer's state on the host, AdamW's, on two ranks and on one" *
          doctest::skip(sanitized)) {
  auto sharded = on_one_rank;
  sharded.mesh.dp = 2;
  sharded.check_state_on_host(adamw{.lr = 1e-2}, 208);
  on_one_rank.check_state_on_host(adamw{.lr = 1e-2}, 208);
}

TEST_CASE("the kernels of CUDA: the optimizer's state on the host, Muon's, zero3, fp32" * doctest::skip(sanitized)) {
  trial_of_state<strategy<mesh<dp>, zero3, lazy_cuda_backend>> trial{{.dp = 2}, two_heads};
  trial.plan.steps = 3;
  trial.check_state_on_host(by_shape{muon{.lr = 1e-2}, adamw{.lr = 1e-2}}, 208);
}

TEST_CASE("the kernels of CUDA: checkpoints and statistics of an optimizer's state on the host" *
          doctest::skip(sanitized)) {
  on_one_rank.check_files(adamw{.lr = 1e-2}, 208);
}

TEST_CASE("the kernels of CUDA: moments in bf16, on the host, have the bits of those on the device" *
          doctest::skip(sanitized)) {
  using S = strategy<mesh<dp, tp>, bf16_moments, zero2, lazy_cuda_backend>;
  const auto plain = rounded_moments<S>({.dp = 2, .tp = 3});
  for (const std::int64_t chunk : {std::int64_t{1}, std::numeric_limits<std::int64_t>::max()})
    CHECK(rounded_moments<S>({.dp = 2, .tp = 3}, 5, chunk) == plain);
}

TEST_CASE("a chunk of as many elements as there are numbers is all of the state") {
  planned_rank<overflowing> one({}, 0);
  one.ctx().keep_optimizer_state_in({}, std::numeric_limits<std::int64_t>::max());
  CHECK(one.ctx().state_chunk() == std::int64_t{1} << 48);
}

TEST_CASE("a file for a device's optimizer state is refused") {
  planned_rank<overflowing> one({}, 0);
  CHECK_THROWS_WITH_AS(one.ctx().keep_optimizer_state_in(file_memory("/tmp")),
                       doctest::Contains("write ctx.keep_optimizer_state_in({})"), failure);
}
